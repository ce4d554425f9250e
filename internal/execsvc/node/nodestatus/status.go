package nodestatus

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/nodeinfo"
)

// Facts are what a status is made of. What isn't known stays as it was in the status before.
type Facts struct {
	Hostname string
	// IPs are the node's own addresses, the primary one first. None: they aren't known now.
	IPs []netip.Addr
	// ExternalCloud is that a cloud provider sets the addresses, and NodeIP that somebody has said which they are: until the provider has set
	// them there are no others but those.
	ExternalCloud, NodeIP bool

	// Info is of the machine: capacity, what of it is for pods, and the system.
	Info nodeinfo.Info
	// KubeletVersion is the version of Kubernetes whose node this is: v1.37.2-podstream.
	KubeletVersion string
	// Port is that of the node's API. Zero: it has none.
	Port int32
	// Images are those on the node, and MaxImages how many of them are told, the largest first; below zero: all. Nil: they aren't known.
	Images    []*runtimeapi.Image
	MaxImages int
	// DeclaredFeatures are those of the features that the scheduler asks for which this node has.
	DeclaredFeatures []string

	Runtime  Runtime
	Pressure Pressure
	// NotReady are further reasons why the node isn't ready: that it shuts down, say. Nil errors are none.
	NotReady []error
}

// Pressure is what the node is short of.
type Pressure struct{ Memory, Disk, PID bool }

// Of is the status at a time, given the one before, which isn't changed. Others' parts of it are kept: conditions and resources that aren't the
// node agent's own, and volumes.
func Of(f Facts, previous v1.NodeStatus, now time.Time) v1.NodeStatus {
	s := *previous.DeepCopy()
	s.Addresses = addresses(f, s.Addresses)
	s.Capacity, s.Allocatable = resources(f.Info, s.Capacity)
	s.NodeInfo = systemInfo(f, s.NodeInfo)
	s.DaemonEndpoints.KubeletEndpoint.Port = f.Port
	if f.Images != nil {
		s.Images = images(f.Images, f.MaxImages)
	}
	if f.Runtime.Handlers != nil {
		s.RuntimeHandlers = handlers(f.Runtime.Handlers)
	}
	if f.Runtime.Features != nil {
		s.Features = &v1.NodeFeatures{SupplementalGroupsPolicy: ptr.To(f.Runtime.Features.GetSupplementalGroupsPolicy())}
	}
	s.DeclaredFeatures = slices.Sorted(slices.Values(f.DeclaredFeatures))
	for _, c := range conditions(f, s.Capacity, now) {
		s.Conditions = withCondition(s.Conditions, c, metav1.NewTime(now))
	}
	return s
}

// Changed tells whether two statuses differ in more than the times of their heartbeats.
func Changed(before, after *v1.NodeStatus) bool {
	return !equality.Semantic.DeepEqual(settled(before), settled(after))
}

// settled is the status without heartbeats, and its conditions in order.
func settled(s *v1.NodeStatus) v1.NodeStatus {
	out := *s
	out.Conditions = slices.Clone(s.Conditions)
	for i := range out.Conditions {
		out.Conditions[i].LastHeartbeatTime = metav1.Time{}
	}
	slices.SortFunc(out.Conditions, func(a, b v1.NodeCondition) int { return cmp.Compare(a.Type, b.Type) })
	return out
}

// addresses follows the kubelet's rules for an external cloud provider: what it has set stands, and before that nothing is made up.
func addresses(f Facts, before []v1.NodeAddress) []v1.NodeAddress {
	switch {
	case f.ExternalCloud && len(before) > 0:
		return before
	case f.ExternalCloud && !f.NodeIP:
		return []v1.NodeAddress{{Type: v1.NodeHostName, Address: f.Hostname}}
	case len(f.IPs) == 0:
		return before
	}
	var out []v1.NodeAddress
	for _, ip := range f.IPs {
		out = append(out, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip.String()})
	}
	return append(out, v1.NodeAddress{Type: v1.NodeHostName, Address: f.Hostname})
}

// resources are the machine's, and of those before the ones that others have given the node, all for pods: devices, and what people advertise.
// Native ones that the machine hasn't any more, such as huge pages of a size, are gone.
func resources(info nodeinfo.Info, before v1.ResourceList) (capacity, allocatable v1.ResourceList) {
	capacity, allocatable = info.Capacity.DeepCopy(), info.Allocatable.DeepCopy()
	for name, amount := range before {
		if _, own := capacity[name]; !own && Extended(name) {
			setAmount(&capacity, name, amount)
			setAmount(&allocatable, name, amount)
		}
	}
	return capacity, allocatable
}

func setAmount(list *v1.ResourceList, name v1.ResourceName, amount resource.Quantity) {
	if *list == nil {
		*list = v1.ResourceList{}
	}
	(*list)[name] = amount
}

// unknownVersion is what the kubelet has for a runtime that hasn't told its version.
const unknownVersion = "Unknown"

func systemInfo(f Facts, before v1.NodeSystemInfo) v1.NodeSystemInfo {
	info := *f.Info.System.DeepCopy()
	info.KubeletVersion = f.KubeletVersion
	info.RunningInUserNamespace = before.RunningInUserNamespace
	switch {
	case f.Runtime.Name != "":
		info.ContainerRuntimeVersion = f.Runtime.Name + "://" + cmp.Or(f.Runtime.Version, unknownVersion)
	default:
		info.ContainerRuntimeVersion = before.ContainerRuntimeVersion
	}
	return info
}

// handlers are in order of their names: a runtime may tell them in another one each time.
func handlers(told []*runtimeapi.RuntimeHandler) []v1.NodeRuntimeHandler {
	out := make([]v1.NodeRuntimeHandler, 0, len(told))
	for _, h := range told {
		out = append(out, v1.NodeRuntimeHandler{Name: h.GetName(), Features: &v1.NodeRuntimeHandlerFeatures{
			RecursiveReadOnlyMounts: ptr.To(h.GetFeatures().GetRecursiveReadOnlyMounts()),
			UserNamespaces:          ptr.To(h.GetFeatures().GetUserNamespaces()),
		}})
	}
	slices.SortFunc(out, func(a, b v1.NodeRuntimeHandler) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
