// Package kubeletmetrics has the kubelet's metrics: the name, type, labels and buckets of each one that podexecd serves.
//
// The package of a part constructs its metrics here, with its registry, and changes them. Values that exist anyway, such
// as the number of pods, are computed when they are scraped. A nil registry gives metrics that are not served.
// docs/metrics.md lists all series of the kubelet; test/differential compares it, and this package, with the kubelet's
// code. Series of other packages of the kubelet stand in other.go and volumes.go. The package starts no goroutines.
//
// No label has a value that a pod's author or a caller of the node's API chooses freely: Limited bounds those that they
// can influence.
package kubeletmetrics
