package declared

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Rules decide which features a node declares. The zero value declares none.
type Rules struct {
	version *version.Version
	has     gateFunc
}

// gateFunc implements ndf.FeatureGate.
type gateFunc func(gate string) bool

// Enabled reports whether the node has the feature of the gate.
func (f gateFunc) Enabled(gate string) bool { return f(gate) }

// New returns the rules of a node with that version of the kubelet, such as "v1.37.2-podstream"; what follows the
// numbers doesn't count. has reports whether the node has the feature of one of the kubelet's feature gates.
func New(kubelet string, has func(gate string) bool) (Rules, error) {
	v, err := version.ParseGeneric(kubelet)
	if err != nil {
		return Rules{}, fmt.Errorf("parse the kubelet's version: %w", err)
	}
	return Rules{version: v, has: has}, nil
}

// Of returns the features of the node while its container runtime reports these. Nil: the runtime reports none.
func (r Rules) Of(runtime *runtimeapi.RuntimeFeatures) Features {
	if r.has == nil {
		return Features{}
	}
	return Features{version: r.version, names: ndf.DefaultFramework.DiscoverNodeFeatures(&ndf.NodeConfiguration{
		FeatureGates: r.has, Version: r.version, RuntimeFeatures: ndf.RuntimeFeatures{
			UserNamespacesHostNetwork: runtime.GetUserNamespacesHostNetwork(), MountOptions: runtime.GetMountOptions(),
		},
	})}
}

// Features are the features that a node declares. The zero value has none.
type Features struct {
	version *version.Version
	names   []string
}

// Names returns the names, sorted. The caller must not change them.
func (f Features) Names() []string { return f.names }

// oldest is a version for which no feature counts as known to all nodes.
var oldest = version.MustParseGeneric("0.0.0")

func (f Features) target() *version.Version {
	if f.version == nil {
		return oldest
	}
	return f.version
}

// Missing returns the names of the features that the pod needs and the node doesn't declare, sorted.
func (f Features) Missing(pod *v1.Pod) []string {
	// The only error is that of a nil version.
	needs, _ := ndf.DefaultFramework.InferForPodScheduling(infoOf(pod), f.target())
	return f.without(needs)
}

// MissingForUpdate returns the names of the features that a change of the pod's spec needs and the node doesn't
// declare, sorted. A change that no API server makes needs none.
func (f Features) MissingForUpdate(before, after *v1.Pod) []string {
	if !sameParts(&before.Spec, &after.Spec) {
		return nil
	}
	needs, _ := ndf.DefaultFramework.InferForPodUpdate(infoOf(before), infoOf(after), f.target())
	return f.without(needs)
}

func infoOf(pod *v1.Pod) *ndf.PodInfo { return &ndf.PodInfo{Spec: &pod.Spec, Status: &pod.Status} }

// without returns the names of the features that aren't declared.
func (f Features) without(needs ndf.FeatureSet) []string {
	// The set is the framework's own, so there is no error.
	names, _ := ndf.DefaultFramework.Unmap(needs)
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(f.names, name) })
}

// sameParts reports whether two specs have the same init containers and volumes, except for what can be changed in
// them. The framework's rules for updates panic for others: an API server rejects these before, but other sources of
// pods may not.
func sameParts(before, after *v1.PodSpec) bool {
	return slices.EqualFunc(before.InitContainers, after.InitContainers, func(a, b v1.Container) bool { return a.Name == b.Name }) &&
		slices.EqualFunc(before.Volumes, after.Volumes, func(a, b v1.Volume) bool {
			return a.Name == b.Name && (a.EmptyDir == nil) == (b.EmptyDir == nil)
		})
}
