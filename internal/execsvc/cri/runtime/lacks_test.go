package runtime

import (
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// A container that lacks something isn't started, and isn't stopped for a definition that can't run; the others start.
func TestContainerThatLacksSomething(t *testing.T) {
	const why = "spec.containers[0].securityContext.appArmorProfile: no"
	s := newSim(t)
	pod := simPod(sample("a"), sample("b"))
	in := s.input(pod)
	in.Lacks = map[string]string{"a": why}
	res := s.SyncPod(t.Context(), in)
	if got := res.Waiting["a"]; got.Reason != CreateContainerConfigError || got.Message != why || res.Err == nil {
		t.Errorf("it waits for %+v, error %v", got, res.Err)
	}
	if got := s.events(); !strings.Contains(strings.Join(got, "\n"), "Error: "+why) {
		t.Errorf("events %q", got)
	}
	s.wantContainer(pod, "b", observed.Running, 0)
	s.mustSync(pod)
	before := s.wantContainer(pod, "a", observed.Running, 0)
	changed := pod.DeepCopy()
	changed.Spec.Containers[0].Image = "localhost/sample:2"
	in = s.input(changed)
	in.Lacks = map[string]string{"a": why}
	if calls := s.callsDuring(func() { res = s.SyncPod(t.Context(), in) }); len(calls) > 0 || res.Err == nil || !strings.Contains(res.Err.Error(), "its predecessor goes on") {
		t.Errorf("calls %q, error %v; want none, and the reason", calls, res.Err)
	}
	if now := s.wantContainer(pod, "a", observed.Running, 0); now.ID != before.ID {
		t.Errorf("container %s runs in place of %s", now.ID, before.ID)
	}
}
