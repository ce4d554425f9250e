// Package declared decides which features a node declares in its status (KEP-5328), and which ones a pod needs.
//
// The features, and the rules for pods, are those of the API server and the scheduler: package nodedeclaredfeatures of
// k8s.io/component-helpers. A feature depends on one of the kubelet's feature gates, and some on the container runtime;
// Rules have the gates as podexecd has their features. Package node reports Features in the Node's status, package
// admit rejects pods that need others, and the Agent records an event for updates that need others.
//
// The package is pure: it runs no goroutines and stores nothing. A feature of a later version of the module needs a row
// in docs/kubelet.md; a test compares the two.
package declared
