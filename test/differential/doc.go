// Package differential holds Podstream's merge against the kubelet's: the same sets of pods go to upstream's PodConfig
// (k8s.io/kubernetes 1.35, the last version with notification modes) and, through the process injectd, to podconfigd; what a
// listener of the one and a gRPC consumer of the other are told is compared op by op, in all three modes.
//
// The comparison is strict. Where Podstream means to differ there is a Rule with a name and a reason, a predicate that
// recognises the case, and an example that shows what either side does. The random sequences step back from what a rule
// recognises, or the comparison leaves out what the rule names; everything else has to be the same.
//
// It is a module of its own, because it alone depends on k8s.io/kubernetes. `make differential` runs it;
// `hack/differential.sh bench` measures upstream's merge.
//
// # Goroutines
//
// An Upstream runs one for each of its sources, a Podstream one that waits for its process. All end with Close.
package differential
