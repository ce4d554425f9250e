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

	"github.com/podstream/podstream/internal/execsvc/machine/nodeinfo"
)

// Facts are the input of a status. A field that isn't known keeps its value from the previous status.
type Facts struct {
	Hostname string
	// IPs are the node's own IPs, the primary one first. Empty: they aren't known now.
	IPs []netip.Addr
	// ExternalCloud is set if a cloud provider sets the addresses, and NodeIP if the configuration does. Until the
	// provider has set them, there are no other addresses than the configured ones.
	ExternalCloud, NodeIP bool

	// Info has the machine's capacity, its allocatable resources and its system.
	Info nodeinfo.Info
	// LocalStorage is localStorageCapacityIsolation: without ephemeral-storage in its capacity the node isn't ready
	// then.
	LocalStorage bool
	// KubeletVersion is the version that the Node reports: v1.37.2-podstream.
	KubeletVersion string
	// Port is the port of the node's API. Zero: it has none.
	Port int32
	// Images are the images on the node. The status has the MaxImages largest; below zero: all. Nil: they aren't known.
	Images    []*runtimeapi.Image
	MaxImages int
	// DeclaredFeatures are the features that the API server and the scheduler rely on: those of package declared.
	DeclaredFeatures []string

	// VolumesInUse are the attachable volumes that are mounted, or will be. Nil: they aren't known now.
	VolumesInUse []v1.UniqueVolumeName

	Runtime  Runtime
	Pressure Pressure
	// NotReady are further reasons why the node isn't ready: it shuts down, say. Nil errors don't count.
	NotReady []error
}

// Pressure has the node's pressure conditions.
type Pressure struct{ Memory, Disk, PID bool }

// Of returns the status at a time, given the previous one, which isn't changed. It keeps the parts that other
// components own: attached volumes, and conditions and resources that aren't the node agent's.
func Of(f Facts, previous v1.NodeStatus, now time.Time) v1.NodeStatus {
	s := *previous.DeepCopy()
	s.Addresses = addresses(f, s.Addresses)
	s.Capacity, s.Allocatable = resources(f.Info, s.Capacity)
	s.NodeInfo = systemInfo(f, s.NodeInfo)
	s.DaemonEndpoints.KubeletEndpoint.Port = f.Port
	if f.Images != nil {
		s.Images = images(f.Images, f.MaxImages)
	}
	if !f.Runtime.Answered.IsZero() {
		s.RuntimeHandlers, s.Features = handlers(f.Runtime.Handlers), features(f.Runtime.Features)
	}
	if f.VolumesInUse != nil {
		s.VolumesInUse = slices.Clone(f.VolumesInUse)
	}
	s.DeclaredFeatures = slices.Sorted(slices.Values(f.DeclaredFeatures))
	for _, c := range conditions(f, s.Capacity, now) {
		s.Conditions = withCondition(s.Conditions, c, metav1.NewTime(now))
	}
	return s
}

// Changed reports whether two statuses differ in more than their heartbeat times.
func Changed(before, after *v1.NodeStatus) bool {
	return !equality.Semantic.DeepEqual(settled(before), settled(after))
}

// settled returns the status without heartbeats, and with its conditions sorted.
func settled(s *v1.NodeStatus) v1.NodeStatus {
	out := *s
	out.Conditions = slices.Clone(s.Conditions)
	for i := range out.Conditions {
		out.Conditions[i].LastHeartbeatTime = metav1.Time{}
	}
	slices.SortFunc(out.Conditions, func(a, b v1.NodeCondition) int { return cmp.Compare(a.Type, b.Type) })
	return out
}

// addresses follows the kubelet's rules for an external cloud provider: the provider's addresses stay, and before it
// has set them no others are added.
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

// resources returns the machine's resources, and those of the previous status that other components have added, all
// allocatable: devices, and extended resources. Native resources that the machine no longer has, such as huge pages of
// a size, are dropped.
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

// unknownVersion is the kubelet's word for a runtime whose version isn't known yet.
const unknownVersion = "Unknown"

func systemInfo(f Facts, before v1.NodeSystemInfo) v1.NodeSystemInfo {
	info := *f.Info.System.DeepCopy()
	info.KubeletVersion = f.KubeletVersion
	switch {
	case f.Runtime.Name != "":
		info.ContainerRuntimeVersion = f.Runtime.Name + "://" + cmp.Or(f.Runtime.Version, unknownVersion)
	default:
		info.ContainerRuntimeVersion = before.ContainerRuntimeVersion
	}
	return info
}

// features returns the runtime's features. A runtime that reports none has none, also if its previous version had some.
func features(reported *runtimeapi.RuntimeFeatures) *v1.NodeFeatures {
	if reported == nil {
		return nil
	}
	return &v1.NodeFeatures{SupplementalGroupsPolicy: ptr.To(reported.GetSupplementalGroupsPolicy())}
}

// handlers returns the handlers sorted by name: a runtime may report them in any order.
func handlers(reported []*runtimeapi.RuntimeHandler) []v1.NodeRuntimeHandler {
	var out []v1.NodeRuntimeHandler
	for _, h := range reported {
		out = append(out, v1.NodeRuntimeHandler{Name: h.GetName(), Features: &v1.NodeRuntimeHandlerFeatures{
			RecursiveReadOnlyMounts: ptr.To(h.GetFeatures().GetRecursiveReadOnlyMounts()),
			UserNamespaces:          ptr.To(h.GetFeatures().GetUserNamespaces()),
		}})
	}
	slices.SortFunc(out, func(a, b v1.NodeRuntimeHandler) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
