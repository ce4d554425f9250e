package runtime

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// fail does a round in which the liveness probe of the running container has failed.
func (s *sim) fail(pod *v1.Pod, container string) SyncResult {
	s.t.Helper()
	in := s.input(pod)
	in.Probes = observed.Probes{in.Has.Latest(container).ID: {Liveness: observed.Failure}}
	return s.SyncPod(s.t.Context(), in)
}

// A container's events of its creation, its start and its backoff are the kubelet's.
func TestEventsOfAContainer(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	s.crashTwice(pod)
	s.sync(pod)
	var got []string
	all, _, _ := s.cfg.Events.After(0)
	for _, e := range all {
		got = append(got, e.Type+" "+e.Reason+" "+e.Container+": "+e.Message)
	}
	for _, want := range []string{
		"Normal Created a: Container created", "Normal Started a: Container started",
		"Warning BackOff a: Back-off restarting failed container a in pod web_default(uid-1)",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("the events are %q; want %q", got, want)
		}
	}
}

// A container that fails its liveness probe repeatedly restarts at once, even if it ends well, as long as it runs
// longer than its backoff: as in the kubelet, the backoff starts at the end of the one before.
func TestLivenessFailures(t *testing.T) {
	s := newSim(t)
	took := s.watchStops()
	a := sample("a", "exit", "0", "3600")
	a.LivenessProbe = &v1.Probe{TerminationGracePeriodSeconds: ptr.To[int64](5)}
	pod := simPod(a)
	pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
	s.mustSync(pod)
	attempt := uint32(0)
	for range 5 {
		s.clock.Step(time.Minute)
		if res := s.fail(pod, "a"); res.Err != nil || len(res.Waiting) > 0 {
			t.Fatalf("result %+v; want it restarted", res)
		}
		attempt++
		s.wantContainer(pod, "a", observed.Running, attempt)
		if diff := cmp.Diff([]string{"a 5"}, took(s.status(pod))); diff != "" {
			t.Errorf("stops (-want +got):\n%s", diff)
		}
		s.mustSync(pod)
	}
	// Now 80 s are due since the end of the one before, and then since its own.
	s.clock.Step(time.Minute)
	if res := s.fail(pod, "a"); res.Waiting["a"].Reason != CrashLoopBackOff || res.RetryAfter != 20*time.Second {
		t.Fatalf("result %+v; want it in backoff", res)
	}
	s.wantContainer(pod, "a", observed.Exited, attempt)
	s.wantWaiting(pod, "a", CrashLoopBackOff, 80*time.Second, false)
	s.clock.Step(80 * time.Second)
	s.mustSync(pod)
	s.wantContainer(pod, "a", observed.Running, attempt+1)
	want := "Killing a: Container a failed liveness probe, will be restarted"
	if got := s.events(); !slices.Contains(got, want) {
		t.Errorf("events %q; want %q", got, want)
	}
}

// restartingPod has a main container "a" whose exit code 42 restarts all.
func restartingPod(s *sim) *v1.Pod {
	a := sample("a")
	a.RestartPolicy = ptr.To(v1.ContainerRestartPolicyNever)
	a.RestartPolicyRules = []v1.ContainerRestartRule{{
		Action:    v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}}
	pod := simPod(a, withPreStop(sample("b")))
	pod.Spec.RestartPolicy = v1.RestartPolicyNever
	pod.Spec.InitContainers = []v1.Container{sample("i", "exit", "0")}
	s.settle(pod)
	return pod
}

// All containers restart in the same sandbox, with the restarts counted.
func TestRestartAll(t *testing.T) {
	s := newSim(t)
	took := s.watchStops()
	pod := restartingPod(s)
	before := s.status(pod)
	s.exit(pod, "a", 42)
	s.mustSync(pod)
	has := s.status(pod)
	if len(has.Containers) != 1 || has.Latest("i") == nil || has.Latest("i").Attempt != 1 {
		t.Fatalf("containers %+v; want the init container for the second time", has.Containers)
	}
	if has.Sandboxes[0].ID != before.Sandboxes[0].ID || has.Sandboxes[0].Attempt != 0 {
		t.Errorf("sandboxes %+v; want the one before", has.Sandboxes)
	}
	if diff := cmp.Diff([]string{"b 2"}, took(before)); diff != "" {
		t.Errorf("stops (-want +got):\n%s", diff)
	}
	if got := s.hooks.took(); len(got) > 0 {
		t.Errorf("hooks %v; want none, for speed", got)
	}
	s.settle(pod)
	s.wantContainer(pod, "a", observed.Running, 1)
	s.wantContainer(pod, "b", observed.Running, 1)
	want := "RestartingAllContainers a: Container a exited with code 42, all containers will be restarted"
	if got := s.events(); !slices.Contains(got, want) {
		t.Errorf("events %q; want %q", got, want)
	}
	// The second time it waits, and the others go on meanwhile.
	s.exit(pod, "a", 42)
	s.wantWaiting(pod, "a", CrashLoopBackOff, 10*time.Second, false)
	s.wantContainer(pod, "b", observed.Running, 1)
	s.clock.Step(10 * time.Second)
	s.settle(pod)
	s.wantContainer(pod, "a", observed.Running, 2)
	if diff := cmp.Diff([]string{"a/1.log", "a/2.log", "b/1.log", "b/2.log", "i/1.log", "i/2.log"}, s.logs(pod)); diff != "" {
		t.Errorf("logs (-want +got):\n%s", diff)
	}
}

// logs are the pod's log files.
func (s *sim) logs(pod *v1.Pod) []string {
	s.t.Helper()
	dir := filepath.Join(s.root, "pods", "default_"+pod.Name+"_"+string(pod.UID))
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		s.t.Fatal(err)
	}
	for i, path := range paths {
		paths[i], _ = filepath.Rel(dir, path)
	}
	return paths
}

// After any failure in between, even with a restart of podexecd each time, all containers have restarted once.
func TestRestartAllConverges(t *testing.T) {
	for _, method := range []string{"StopContainer", "RemoveContainer", "CreateContainer", "StartContainer"} {
		t.Run(method, func(t *testing.T) {
			tryEach(t, func(t *testing.T, n int) bool {
				s := newSim(t)
				pod := restartingPod(s)
				s.exit(pod, "a", 42)
				o := &once{method: method, n: n}
				s.setFault(o.fault)
				for range 10 {
					s.Runtime = s.restarted()
					s.sync(pod)
				}
				s.setFault(nil)
				s.wantContainer(pod, "a", observed.Running, 1)
				s.wantContainer(pod, "b", observed.Running, 1)
				return o.hit
			})
		})
	}
}

// A runtime that has lost its containers affects neither the restart counts nor the last logs.
func TestRestartsAreCountedByLogs(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	for range 2 {
		s.mustSync(pod)
		s.exit(pod, "a", 1)
	}
	s.Server.DropAll()
	s.mustSync(pod)
	s.wantContainer(pod, "a", observed.Running, 2)
	if diff := cmp.Diff([]string{"a/1.log", "a/2.log"}, s.logs(pod)); diff != "" {
		t.Errorf("logs (-want +got):\n%s", diff)
	}
}

func TestEphemeralContainerHasItsTarget(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	s.mustSync(pod)
	ephemeral := func(target string) {
		pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{
			EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", Image: "localhost/sample:1"}, TargetContainerName: target,
		}}
	}
	ephemeral("nobody")
	if message := s.wantWaiting(pod, "e", CreateContainerConfigError, 0, true); message != "unable to find target container nobody" {
		t.Errorf("message %q", message)
	}
	ephemeral("a")
	s.mustSync(pod)
	s.exit(pod, "e", 1)
	if calls := s.callsDuring(func() { s.mustSync(pod) }); len(calls) > 0 {
		t.Errorf("calls %q; an ephemeral container isn't restarted", calls)
	}
}

// The calls for a new pod: only those that create it, and one for its IPs.
func TestCallsOfANewPod(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"), sample("b"))
	in := s.input(pod)
	before := s.Server.Calls()
	if res := s.SyncPod(t.Context(), in); res.Err != nil || !res.Acted {
		t.Fatalf("result %+v", res)
	}
	got := s.Server.Calls()
	for method, n := range before {
		if got[method] -= n; got[method] == 0 {
			delete(got, method)
		}
	}
	want := map[string]int{"ImageStatus": 2, "RunPodSandbox": 1, "PodSandboxStatus": 1, "CreateContainer": 2, "StartContainer": 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
