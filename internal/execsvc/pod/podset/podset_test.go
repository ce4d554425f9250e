package podset

import (
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func newPod(uid, namespace, name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Namespace: namespace, Name: name}}
}

func TestPutGetRemove(t *testing.T) {
	s := New()
	if s.Get("a") != nil || s.ByName("default", "web") != nil || s.Remove("a") != nil || len(s.All()) != 0 {
		t.Fatal("an empty Set has something")
	}
	first, second := newPod("a", "default", "web"), newPod("a", "default", "web")
	s.Put(first)
	if s.Get("a") != first || s.ByName("default", "web") != first {
		t.Error("the pod isn't found by UID or by name")
	}
	s.Put(second)
	if s.Get("a") != second || s.ByName("default", "web") != second || len(s.All()) != 1 {
		t.Error("a pod with the same UID doesn't replace the one before")
	}
	s.Put(newPod("b", "other", "web"))
	if s.ByName("default", "web") != second || len(s.All()) != 2 {
		t.Error("a pod of another namespace came in between")
	}
	if s.Remove("a") != second || s.Get("a") != nil || s.ByName("default", "web") != nil || len(s.All()) != 1 {
		t.Error("the pod isn't gone after Remove")
	}
}

// A name may have more than one pod for a while, and which came last must not matter for those that stay.
func TestNameOfSeveral(t *testing.T) {
	tests := []struct {
		name string
		do   func(s *Set)
		want types.UID
	}{
		{"the last one", func(*Set) {}, "b"},
		{"the first one removed", func(s *Set) { s.Remove("a") }, "b"},
		{"the last one removed", func(s *Set) { s.Remove("b") }, "a"},
		{"the first one updated", func(s *Set) { s.Put(newPod("a", "default", "web")) }, "b"},
		{"the last one renamed", func(s *Set) { s.Put(newPod("b", "default", "job")) }, "a"},
		{"both removed", func(s *Set) { s.Remove("a"); s.Remove("b") }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := New()
			s.Put(newPod("a", "default", "web"))
			s.Put(newPod("b", "default", "web"))
			tt.do(s)
			got := s.ByName("default", "web")
			if tt.want == "" {
				if got != nil || len(s.byName) != 0 {
					t.Errorf("%v still has the name", got.UID)
				}
				return
			}
			if got == nil || got.UID != tt.want {
				t.Errorf("the name is %v's; want %s", got, tt.want)
			}
		})
	}
}

func TestRenamed(t *testing.T) {
	s := New()
	s.Put(newPod("a", "default", "web"))
	renamed := newPod("a", "default", "job")
	s.Put(renamed)
	if s.ByName("default", "web") != nil || s.ByName("default", "job") != renamed {
		t.Error("the pod isn't found by its new name only")
	}
}

func TestSettled(t *testing.T) {
	tests := []struct {
		name string
		// ready is the readiness of the configured sources.
		ready map[string]bool
		want  map[string]bool
	}{
		{
			name: "no source is ready",
			want: map[string]bool{"file": false, "": false},
		},
		{
			name:  "none is ready",
			ready: map[string]bool{"file": false, "api": false},
			want:  map[string]bool{"file": false, "api": false, "http": false, "": false},
		},
		{
			// A static pod doesn't wait for the API server; one of a source that was dropped waits for all.
			name:  "one is ready",
			ready: map[string]bool{"file": true, "api": false},
			want:  map[string]bool{"file": true, "api": false, "http": false, "": false},
		},
		{
			name:  "all are ready",
			ready: map[string]bool{"file": true, "api": true},
			want:  map[string]bool{"file": true, "api": true, "http": true, "": true},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := New()
			s.SetSources(tt.ready)
			for source, want := range tt.want {
				if s.Settled(source) != want {
					t.Errorf("Settled(%q) is %v; want %v", source, !want, want)
				}
			}
		})
	}
}

// Before all sources are known none is settled: one that hasn't been named yet may have pods.
func TestNothingIsSettledBeforeSetSources(t *testing.T) {
	s := New()
	s.SetReady("file", true)
	for _, source := range []string{"file", "api", ""} {
		if s.Settled(source) {
			t.Errorf("%q is settled", source)
		}
	}
}

func TestSetReadyChanges(t *testing.T) {
	s := New()
	s.SetSources(map[string]bool{"file": false, "api": false})
	s.SetReady("file", true)
	s.SetReady("gone", false)
	if !s.Settled("file") || s.Settled("api") || s.Settled("") {
		t.Error("SetReady isn't what Settled goes by")
	}
	s.SetReady("api", true)
	if !s.Settled("api") || !s.Settled("") {
		t.Error("api became ready, and isn't settled")
	}
	s.SetReady("file", false)
	if s.Settled("file") || s.Settled("") {
		t.Error("file isn't ready any more, and is settled")
	}
}

func TestSetSourcesDropsOthers(t *testing.T) {
	s := New()
	s.SetReady("http", false)
	ready := map[string]bool{"file": true}
	s.SetSources(ready)
	if !s.Settled("http") {
		t.Error("a source that isn't configured any more holds its pods back")
	}
	ready["file"] = false
	if !s.Settled("file") {
		t.Error("the Set changes with the caller's map")
	}
}

// TestSourcesChange: a source that is added while the node runs holds back only what no source can be found for; one
// that is removed lets it go; neither touches a pod that is in the Set.
func TestSourcesChange(t *testing.T) {
	s := New()
	s.Put(newPod("a", "default", "a"))
	check := func(what string, want map[string]bool) {
		t.Helper()
		for source, settled := range want {
			if s.Settled(source) != settled {
				t.Errorf("%s: Settled(%q) is %v; want %v", what, source, !settled, settled)
			}
		}
		if s.Get("a") == nil {
			t.Errorf("%s: the pod is gone", what)
		}
	}
	s.SetSources(map[string]bool{"file": true, "api": true})
	check("all are ready", map[string]bool{"file": true, "api": true, "gone": true, "": true})
	s.SetSources(map[string]bool{"file": true, "relay": false, "api": true})
	check("relay is added", map[string]bool{"file": true, "api": true, "relay": false, "gone": false, "": false})
	s.SetReady("api", false)
	s.SetSources(map[string]bool{"file": true, "relay": false})
	check("api is removed", map[string]bool{"file": true, "relay": false, "api": false, "": false})
	s.SetReady("relay", true)
	check("relay is ready", map[string]bool{"file": true, "relay": true, "api": true, "": true})
	s.SetReady("api", false)
	check("a late word of api", map[string]bool{"file": true, "api": true, "": true})
	s.SetSources(map[string]bool{"file": true, "relay": true, "api": false})
	check("api is back", map[string]bool{"file": true, "api": false, "gone": false, "": false})
	s.SetSources(nil)
	check("there is none", map[string]bool{"file": false, "": false})
}

func TestAll(t *testing.T) {
	s := New()
	want := map[types.UID]*v1.Pod{}
	for _, uid := range []string{"a", "b", "c"} {
		pod := newPod(uid, "default", uid)
		want[pod.UID] = pod
		s.Put(pod)
	}
	got := map[types.UID]*v1.Pod{}
	for _, pod := range s.All() {
		got[pod.UID] = pod
	}
	if !maps.Equal(got, want) {
		t.Errorf("All has %v; want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

func TestUnready(t *testing.T) {
	s := New()
	want := func(when string, sources ...string) {
		t.Helper()
		if got := s.Unready(); !slices.Equal(got, sources) {
			t.Errorf("%s: %q; want %q", when, got, sources)
		}
	}
	want("before the sources are known")
	s.SetSources(map[string]bool{"url": false, "api": false, "file": true})
	want("at first", "api", "url")
	s.SetReady("url", true)
	want("once url is ready", "api")
	s.SetSources(map[string]bool{"file": true})
	want("without api")
}
