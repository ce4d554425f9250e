package declared

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/nodedeclaredfeatures/features"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/kubeletconfig"
	"github.com/podstream/podstream/internal/kubeletconfig/gates"
)

// able is a container runtime that reports all features.
var able = &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true, UserNamespacesHostNetwork: true, MountOptions: true}

// of returns the features of a node with these gates.
func of(t *testing.T, set map[string]bool, runtime *runtimeapi.RuntimeFeatures) Features {
	t.Helper()
	on, mistakes := gates.New(set)
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	rules, err := New(kubeletconfig.Version, on.Has)
	if err != nil {
		t.Fatal(err)
	}
	return rules.Of(runtime)
}

// The defaults declare what podexecd has, and nothing else.
func TestDefaults(t *testing.T) {
	want := []string{
		"ExtendWebSocketsToKubelet", "InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers",
		"RestartAllContainersOnContainerExits",
	}
	for _, runtime := range []*runtimeapi.RuntimeFeatures{nil, able} {
		if diff := cmp.Diff(want, of(t, nil, runtime).Names()); diff != "" {
			t.Errorf("runtime %v (-want +got):\n%s", runtime, diff)
		}
	}
	if got := (Rules{}).Of(able).Names(); len(got) > 0 {
		t.Errorf("the zero Rules declare %q", got)
	}
	if _, err := New("one", nil); err == nil {
		t.Error("a version without numbers is no error")
	}
}

// TestEachFeatureIsDocumented: docs/node.md says of each feature that the API server and the scheduler know whether this
// node declares it. It fails if a later version of the module has another one: decide then whether podexecd has it.
func TestEachFeatureIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/node.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\| (yes|no|with its gate) \\|").FindAllStringSubmatch(string(text), -1) {
		documented[row[1]] = row[2]
	}
	actual := map[string]string{}
	for _, f := range features.AllFeatures {
		name := f.Name()
		switch {
		case slices.Contains(of(t, nil, able).Names(), name):
			actual[name] = "yes"
		case slices.Contains(of(t, map[string]bool{name: true}, able).Names(), name):
			actual[name] = "with its gate"
		default:
			actual[name] = "no"
		}
	}
	if diff := cmp.Diff(actual, documented); diff != "" {
		t.Errorf("docs/node.md (-declared +documented):\n%s", diff)
	}
}

// A feature of the runtime is declared only with its gate, and while the runtime reports it.
func TestFeatureOfTheRuntime(t *testing.T) {
	const gate = gates.UserNamespacesHostNetworkSupport
	for _, c := range []struct {
		on      bool
		runtime *runtimeapi.RuntimeFeatures
		want    bool
	}{{false, able, false}, {true, nil, false}, {true, &runtimeapi.RuntimeFeatures{MountOptions: true}, false}, {true, able, true}} {
		f := of(t, map[string]bool{gate: c.on}, c.runtime)
		if got := slices.Contains(f.Names(), gate); got != c.want {
			t.Errorf("gate %t, runtime %v: declared %t", c.on, c.runtime, got)
		}
		pod := &v1.Pod{Spec: v1.PodSpec{HostNetwork: true, HostUsers: ptr.To(false)}}
		if missing := f.Missing(pod); (len(missing) == 0) != c.want || len(missing) > 1 {
			t.Errorf("gate %t, runtime %v: a pod misses %q", c.on, c.runtime, missing)
		}
	}
}

// specOf is a spec that an update can change in each way that a feature is about.
func specOf() *v1.PodSpec {
	return &v1.PodSpec{
		InitContainers: []v1.Container{{Name: "i"}}, Containers: []v1.Container{{Name: "c"}},
		Volumes: []v1.Volume{{Name: "m", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{
			Medium: v1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("1Mi")),
		}}}},
	}
}

func TestMissingForUpdate(t *testing.T) {
	amounts := v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("1")}}
	for name, c := range map[string]struct {
		change func(*v1.PodSpec)
		// nothing is what a node misses that declares nothing, defaults what one with the defaults misses.
		nothing, defaults []string
	}{
		"nothing":          {change: func(*v1.PodSpec) {}},
		"a main container": {change: func(s *v1.PodSpec) { s.Containers[0].Resources = amounts }},
		"an init container": {
			change: func(s *v1.PodSpec) { s.InitContainers[0].Resources = amounts }, nothing: []string{"InPlacePodVerticalScalingInitContainers"},
		},
		"the pod": {change: func(s *v1.PodSpec) { s.Resources = &amounts }, nothing: []string{"InPlacePodLevelResourcesVerticalScaling"}},
		"a volume in memory": {
			change:  func(s *v1.PodSpec) { s.Volumes[0].EmptyDir.SizeLimit = ptr.To(resource.MustParse("2Mi")) },
			nothing: []string{"InPlacePodVerticalScalingMemoryBackedVolumes"}, defaults: []string{"InPlacePodVerticalScalingMemoryBackedVolumes"},
		},
	} {
		before, after := &v1.Pod{Spec: *specOf()}, &v1.Pod{Spec: *specOf()}
		c.change(&after.Spec)
		if got := (Features{}).MissingForUpdate(before, after); !slices.Equal(got, c.nothing) {
			t.Errorf("%s: a node without features misses %q; want %q", name, got, c.nothing)
		}
		if got := of(t, nil, nil).MissingForUpdate(before, after); !slices.Equal(got, c.defaults) {
			t.Errorf("%s: it misses %q; want %q", name, got, c.defaults)
		}
	}
}

// Any pair of specs has a result: the stream may have changes that no API server allows.
func TestAnyUpdate(t *testing.T) {
	volumes := rapid.Custom(func(t *rapid.T) v1.Volume {
		v := v1.Volume{Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")}
		if rapid.Bool().Draw(t, "emptyDir") {
			v.EmptyDir = &v1.EmptyDirVolumeSource{Medium: rapid.SampledFrom([]v1.StorageMedium{"", "Memory"}).Draw(t, "medium")}
			if rapid.Bool().Draw(t, "limited") {
				v.EmptyDir.SizeLimit = resource.NewQuantity(rapid.Int64Range(0, 2).Draw(t, "limit"), resource.BinarySI)
			}
		}
		return v
	})
	pods := rapid.Custom(func(t *rapid.T) *v1.Pod {
		pod := &v1.Pod{Spec: v1.PodSpec{Volumes: rapid.SliceOfN(volumes, 0, 3).Draw(t, "volumes")}}
		for range rapid.IntRange(0, 3).Draw(t, "init containers") {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, v1.Container{Name: "i"})
		}
		return pod
	})
	rapid.Check(t, func(t *rapid.T) {
		(Features{}).MissingForUpdate(pods.Draw(t, "before"), pods.Draw(t, "after"))
	})
}
