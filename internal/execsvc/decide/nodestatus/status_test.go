package nodestatus

import (
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/machine/nodeinfo"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func amounts(pairs ...string) v1.ResourceList {
	list := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func texts(list v1.ResourceList) map[string]string {
	out := map[string]string{}
	for name, amount := range list {
		out[string(name)] = amount.String()
	}
	return out
}

// good returns the facts of a healthy node.
func good() Facts {
	return Facts{
		Hostname: "n1", IPs: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
		Info: nodeinfo.Info{
			Capacity:    amounts("cpu", "2", "memory", "4Gi", "pods", "110", "ephemeral-storage", "10Gi"),
			Allocatable: amounts("cpu", "1900m", "memory", "3Gi", "pods", "110", "ephemeral-storage", "9Gi"),
			System:      v1.NodeSystemInfo{MachineID: "m", BootID: "b1", OperatingSystem: "linux", Architecture: runtime.GOARCH},
		},
		LocalStorage: true, KubeletVersion: "v1.37.2-podstream", Port: 10250, MaxImages: -1,
		Runtime: Runtime{
			Name: "containerd", Version: "1.7.24", Answered: t0,
			Ready:   &runtimeapi.RuntimeCondition{Type: "RuntimeReady", Status: true},
			Network: &runtimeapi.RuntimeCondition{Type: "NetworkReady", Status: true},
		},
	}
}

func TestOfANewNode(t *testing.T) {
	got := Of(good(), v1.NodeStatus{}, t0)
	at := metav1.NewTime(t0)
	want := v1.NodeStatus{
		Capacity: good().Info.Capacity, Allocatable: good().Info.Allocatable,
		Addresses:       []v1.NodeAddress{{Type: "InternalIP", Address: "10.0.0.1"}, {Type: "Hostname", Address: "n1"}},
		DaemonEndpoints: v1.NodeDaemonEndpoints{KubeletEndpoint: v1.DaemonEndpoint{Port: 10250}},
		NodeInfo: v1.NodeSystemInfo{
			MachineID: "m", BootID: "b1", OperatingSystem: "linux", Architecture: runtime.GOARCH,
			ContainerRuntimeVersion: "containerd://1.7.24", KubeletVersion: "v1.37.2-podstream",
		},
		Conditions: []v1.NodeCondition{
			{
				Type: "MemoryPressure", Status: "False", LastHeartbeatTime: at, LastTransitionTime: at,
				Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available",
			},
			{
				Type: "DiskPressure", Status: "False", LastHeartbeatTime: at, LastTransitionTime: at,
				Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure",
			},
			{
				Type: "PIDPressure", Status: "False", LastHeartbeatTime: at, LastTransitionTime: at,
				Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available",
			},
			{
				Type: "Ready", Status: "True", LastHeartbeatTime: at, LastTransitionTime: at,
				Reason: "KubeletReady", Message: "kubelet is posting ready status",
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestAddresses(t *testing.T) {
	set := []v1.NodeAddress{{Type: "ExternalIP", Address: "1.2.3.4"}}
	hostname := v1.NodeAddress{Type: "Hostname", Address: "n1"}
	first, second := v1.NodeAddress{Type: "InternalIP", Address: "10.0.0.1"}, v1.NodeAddress{Type: "InternalIP", Address: "fd00::1"}
	for name, c := range map[string]struct {
		with   func(*Facts)
		before []v1.NodeAddress
		want   []v1.NodeAddress
	}{
		"one":                           {func(*Facts) {}, set, []v1.NodeAddress{first, hostname}},
		"two":                           {func(f *Facts) { f.IPs = append(f.IPs, netip.MustParseAddr("fd00::1")) }, nil, []v1.NodeAddress{first, second, hostname}},
		"not known now":                 {func(f *Facts) { f.IPs = nil }, set, set},
		"the provider's stand":          {func(f *Facts) { f.ExternalCloud, f.NodeIP = true, true }, set, set},
		"the provider comes later":      {func(f *Facts) { f.ExternalCloud = true }, nil, []v1.NodeAddress{hostname}},
		"the provider, and a --node-ip": {func(f *Facts) { f.ExternalCloud, f.NodeIP = true, true }, nil, []v1.NodeAddress{first, hostname}},
	} {
		f := good()
		c.with(&f)
		if diff := cmp.Diff(c.want, Of(f, v1.NodeStatus{Addresses: c.before}, t0).Addresses); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Devices and extended resources are kept; the machine's own resources are read again.
func TestResources(t *testing.T) {
	before := v1.NodeStatus{
		Capacity:    amounts("cpu", "64", "hugepages-2Mi", "1Gi", "example.com/gpu", "4", "example.com/dongle", "3", "kubernetes.io/odd", "1"),
		Allocatable: amounts("cpu", "64", "hugepages-2Mi", "1Gi", "example.com/gpu", "0", "example.com/gone", "1"),
	}
	got := Of(good(), before, t0)
	capacity := map[string]string{
		"cpu": "2", "memory": "4Gi", "pods": "110", "ephemeral-storage": "10Gi", "example.com/gpu": "4", "example.com/dongle": "3",
	}
	allocatable := map[string]string{
		"cpu": "1900m", "memory": "3Gi", "pods": "110", "ephemeral-storage": "9Gi", "example.com/gpu": "4", "example.com/dongle": "3",
	}
	if diff := cmp.Diff(capacity, texts(got.Capacity)); diff != "" {
		t.Errorf("capacity (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(allocatable, texts(got.Allocatable)); diff != "" {
		t.Errorf("allocatable (-want +got):\n%s", diff)
	}
	for name, want := range map[v1.ResourceName]bool{
		"cpu": false, "hugepages-2Mi": false, "example.com/gpu": true, "kubernetes.io/x": false, "requests.example.com/x": false, "a/b/c": false,
	} {
		if Extended(name) != want {
			t.Errorf("Extended(%s) is %v", name, !want)
		}
	}
}

// Fields that aren't known keep their values, and so do volumes.
func TestUnknownIsKept(t *testing.T) {
	before := v1.NodeStatus{
		NodeInfo:        v1.NodeSystemInfo{ContainerRuntimeVersion: "containerd://1.7.0"},
		Images:          []v1.ContainerImage{{Names: []string{"a"}}},
		RuntimeHandlers: []v1.NodeRuntimeHandler{{Name: "runc"}},
		Features:        &v1.NodeFeatures{SupplementalGroupsPolicy: ptr.To(true)},
		VolumesInUse:    []v1.UniqueVolumeName{"v"}, VolumesAttached: []v1.AttachedVolume{{Name: "v"}},
	}
	f := good()
	f.Runtime = Runtime{}
	got := Of(f, before, t0)
	kept := v1.NodeStatus{
		NodeInfo: v1.NodeSystemInfo{ContainerRuntimeVersion: got.NodeInfo.ContainerRuntimeVersion}, Images: got.Images,
		RuntimeHandlers: got.RuntimeHandlers, Features: got.Features, VolumesInUse: got.VolumesInUse, VolumesAttached: got.VolumesAttached,
	}
	if diff := cmp.Diff(before, kept); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	f.Runtime = Runtime{
		Name: "cri-o", Answered: t0, Features: &runtimeapi.RuntimeFeatures{},
		Handlers: []*runtimeapi.RuntimeHandler{{Name: "runc", Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}}, {}},
	}
	f.Images, f.DeclaredFeatures = []*runtimeapi.Image{}, []string{"B", "A"}
	got = Of(f, before, t0)
	handlers := []v1.NodeRuntimeHandler{
		{Features: &v1.NodeRuntimeHandlerFeatures{RecursiveReadOnlyMounts: ptr.To(false), UserNamespaces: ptr.To(false)}},
		{Name: "runc", Features: &v1.NodeRuntimeHandlerFeatures{RecursiveReadOnlyMounts: ptr.To(false), UserNamespaces: ptr.To(true)}},
	}
	if diff := cmp.Diff(handlers, got.RuntimeHandlers); diff != "" {
		t.Errorf("handlers (-want +got):\n%s", diff)
	}
	if got.NodeInfo.ContainerRuntimeVersion != "cri-o://Unknown" || len(got.Images) != 0 || *got.Features.SupplementalGroupsPolicy {
		t.Errorf("the status is %+v", got)
	}
	if diff := cmp.Diff([]string{"A", "B"}, got.DeclaredFeatures); diff != "" {
		t.Errorf("features (-want +got):\n%s", diff)
	}
	// Another version of the runtime reports none.
	f.Runtime = Runtime{Name: "cri-o", Answered: t0}
	if got = Of(f, got, t0); len(got.RuntimeHandlers) > 0 || got.Features != nil {
		t.Errorf("the handlers are %+v, the features %+v; want none", got.RuntimeHandlers, got.Features)
	}
}

func TestImages(t *testing.T) {
	f := good()
	f.Images = []*runtimeapi.Image{
		{Id: "1", Size: 10, RepoTags: []string{"b:1", "a:1"}, RepoDigests: []string{"z@sha256:1"}},
		{Id: "2", Size: 30, RepoTags: []string{"6", "5", "4", "3", "2", "1"}},
		{Id: "4", Size: 20, RepoTags: []string{"four"}},
		{Id: "3", Size: 20, RepoTags: []string{"three"}},
	}
	want := []v1.ContainerImage{
		{Names: []string{"1", "2", "3", "4", "5"}, SizeBytes: 30}, {Names: []string{"four"}, SizeBytes: 20}, {Names: []string{"three"}, SizeBytes: 20},
		{Names: []string{"z@sha256:1", "a:1", "b:1"}, SizeBytes: 10},
	}
	for most, want := range map[int][]v1.ContainerImage{-1: want, 2: want[:2], 0: nil} {
		f.MaxImages = most
		if diff := cmp.Diff(want, Of(f, v1.NodeStatus{}, t0).Images); diff != "" {
			t.Errorf("%d at most (-want +got):\n%s", most, diff)
		}
	}
}

func TestChanged(t *testing.T) {
	base := Of(good(), v1.NodeStatus{}, t0)
	for name, c := range map[string]struct {
		with func(*v1.NodeStatus)
		want bool
	}{
		"heartbeats":         {func(s *v1.NodeStatus) { s.Conditions[0].LastHeartbeatTime = metav1.Now() }, false},
		"order":              {func(s *v1.NodeStatus) { s.Conditions[0], s.Conditions[1] = s.Conditions[1], s.Conditions[0] }, false},
		"form of a quantity": {func(s *v1.NodeStatus) { s.Allocatable["cpu"] = resource.MustParse("1.9") }, false},
		"message":            {func(s *v1.NodeStatus) { s.Conditions[0].Message = "?" }, true},
		"one more":           {func(s *v1.NodeStatus) { s.Conditions = append(s.Conditions, v1.NodeCondition{Type: "X"}) }, true},
		"port":               {func(s *v1.NodeStatus) { s.DaemonEndpoints.KubeletEndpoint.Port++ }, true},
	} {
		s := *base.DeepCopy()
		c.with(&s)
		if got := Changed(&base, &s); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestEvents(t *testing.T) {
	reasons := func(before, after v1.NodeStatus) (out []string) {
		for _, e := range Events("n1", &before, &after) {
			out = append(out, e.Type+" "+e.Reason+" "+e.Message)
		}
		return out
	}
	was := Of(good(), v1.NodeStatus{}, t0)
	if diff := cmp.Diff([]string{
		"Normal NodeHasSufficientMemory Node n1 status is now: NodeHasSufficientMemory",
		"Normal NodeHasNoDiskPressure Node n1 status is now: NodeHasNoDiskPressure",
		"Normal NodeHasSufficientPID Node n1 status is now: NodeHasSufficientPID",
	}, reasons(v1.NodeStatus{}, was)); diff != "" {
		t.Errorf("of a new node (-want +got):\n%s", diff)
	}
	if got := reasons(was, Of(good(), was, t0.Add(time.Second))); got != nil {
		t.Errorf("of no change: %v", got)
	}
	f := good()
	f.Runtime, f.Pressure.Disk, f.Info.System.BootID = Runtime{}, true, "b2"
	is := Of(f, was, t0)
	if diff := cmp.Diff([]string{
		"Warning Rebooted Node n1 has been rebooted, boot id: b2",
		"Normal NodeHasDiskPressure Node n1 status is now: NodeHasDiskPressure",
		"Normal NodeNotReady Node n1 status is now: NodeNotReady",
	}, reasons(was, is)); diff != "" {
		t.Errorf("of a reboot (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Normal NodeReady Node n1 status is now: NodeReady"}, reasons(is, Of(withDisk(f), is, t0))); diff != "" {
		t.Errorf("ready again (-want +got):\n%s", diff)
	}
}

// withDisk is what f is short of, of a node that is well otherwise.
func withDisk(f Facts) Facts {
	out := good()
	out.Info, out.Pressure = f.Info, f.Pressure
	return out
}
