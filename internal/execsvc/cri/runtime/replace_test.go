package runtime

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// endsWell are the arguments of a program that ends with 0 after a SIGTERM.
var endsWell = []string{"on-term", "/told", "x", "0s", "0"}

// A container that was stopped for its successor has one also if podexecd is killed in between, and if it ended well
// under a policy that lets it end. The caller has its ID before the container is stopped.
func TestKilledBeforeSuccessor(t *testing.T) {
	lost := errors.New("podexecd was killed")
	for what, replace := range map[string]func(in *SyncInput){
		"needs another sandbox": func(in *SyncInput) { in.Pod.Spec.HostNetwork = true },
		"definition changed":    func(in *SyncInput) { in.Pod.Spec.Containers[0].Image = "localhost/sample:2" },
		"failed its probe": func(in *SyncInput) {
			in.Probes = observed.Probes{in.Has.Latest("a").ID: {Liveness: observed.Failure}}
		},
	} {
		for policy, wantStored := range map[v1.RestartPolicy]int{v1.RestartPolicyOnFailure: 1, v1.RestartPolicyAlways: 0} {
			t.Run(what+", "+string(policy), func(t *testing.T) {
				s := newSim(t)
				pod := simPod(sample("a", endsWell...))
				pod.Spec.RestartPolicy = policy
				s.mustSync(pod)
				s.clock.Step(time.Minute)
				in := s.input(pod)
				replace(&in)
				var stored []string
				in.Replacing = func(_ context.Context, ids []string) { stored = slices.Clone(ids) }
				atStop := -1
				s.setFault(func(method string) error {
					switch method {
					case "StopContainer":
						atStop = len(stored)
					case "RunPodSandbox", "CreateContainer":
						return lost
					}
					return nil
				})
				if res := s.SyncPod(t.Context(), in); res.Err == nil {
					t.Fatalf("result %+v; want the successor to fail", res)
				}
				if atStop != wantStored {
					t.Errorf("%d containers were reported before the stop; want %d", atStop, wantStored)
				}
				s.setFault(nil)
				s.Runtime = s.restarted()
				s.RestoreReplaced(stored)
				if a := s.wantContainer(pod, "a", observed.Exited, 0); a.ExitCode != 0 {
					t.Fatalf("a is %+v; want it ended well", a)
				}
				s.mustSync(pod)
				s.wantContainer(pod, "a", observed.Running, 1)
			})
		}
	}
}

// The IDs of containers that are gone aren't reported again.
func TestReplacingHasOnlyWhatIsThere(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a", endsWell...))
	pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
	s.mustSync(pod)
	for attempt := range uint32(5) {
		s.clock.Step(time.Hour)
		in := s.input(pod)
		id := in.Has.Latest("a").ID
		in.Probes = observed.Probes{id: {Liveness: observed.Failure}}
		var reported []string
		in.Replacing = func(_ context.Context, ids []string) { reported = ids }
		if res := s.SyncPod(t.Context(), in); res.Err != nil {
			t.Fatal(res.Err)
		}
		if len(reported) == 0 || reported[0] != id || len(reported) > 2 {
			t.Fatalf("at attempt %d %q are reported; want %s, and the one before at most", attempt, reported, id)
		}
		s.wantContainer(pod, "a", observed.Running, attempt+1)
		s.mustSync(pod)
	}
}
