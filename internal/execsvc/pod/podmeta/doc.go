// Package podmeta answers questions about a pod from its object alone: its source, whether it is a static or a mirror
// pod, its containers, its QoS class, its grace period, its priority for the node, its names, and the labels and
// annotations on its sandboxes and containers.
//
// It is the only package of podexecd that spells these annotation keys. It is pure and imports no other internal
// package.
package podmeta
