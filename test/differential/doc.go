// Package differential compares Podstream with the kubelet, in two ways.
//
// The merge: the same sets of pods go to upstream's PodConfig (k8s.io/kubernetes 1.35, the last version with
// notification modes) and, through the process injectd, to podconfigd; the updates of a listener of the one and the
// ops of a gRPC consumer of the other are compared one by one, in all three modes.
//
// Manifests: mutants of the pods in testdata/pods go to the kubelet's functions for reading a static pod (kubelet.go)
// and, through the process parsepods, to manifest.Parse. The comparison covers whether the pod is rejected, and the
// resulting pod field by field. The seed and its number reproduce a mutant: -pods.seed=SEED -pods.first=NUMBER
// -pods=1.
//
// Both comparisons are strict. An intended difference has a Rule or a PodRule with a name and a reason, which
// recognises the case, and an example of both sides. The random sequences avoid the cases of a Rule, or the
// comparison leaves out what the Rule names; a PodRule must recognise each difference of a mutant. Everything else
// must be the same.
//
// It is a separate module, because only it depends on k8s.io/kubernetes. `make differential` runs it;
// `hack/differential.sh bench` measures upstream's merge.
//
// # Goroutines
//
// An Upstream runs one for each of its sources, a Podstream one that waits for its process. All end with Close. A
// Parser runs none.
package differential
