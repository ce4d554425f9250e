package status

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// TestReadyByProbes is for a main container and for a sidecar alike.
func TestReadyByProbes(t *testing.T) {
	probed := func(startup, readiness observed.Verdict) observed.Probes {
		return observed.Probes{"id-a": {Startup: startup, Readiness: readiness}, "id-side": {Startup: startup, Readiness: readiness}}
	}
	for name, c := range map[string]struct {
		startup, readiness bool // whether it has such a probe
		state              func(string) observed.Container
		probes             observed.Probes
		started, ready     bool
	}{
		"no probes":                       {probes: nil, started: true, ready: true},
		"no probes, not running":          {state: created},
		"readiness undecided":             {readiness: true, probes: probed(observed.NoProbe, observed.Undecided), started: true},
		"readiness failed":                {readiness: true, probes: probed(observed.NoProbe, observed.Failure), started: true},
		"readiness passed":                {readiness: true, probes: probed(observed.NoProbe, observed.Success), started: true, ready: true},
		"readiness passed, then it ended": {readiness: true, probes: probed(observed.NoProbe, observed.Success), state: func(n string) observed.Container { return exited(n, 1) }},
		"readiness not heard of yet":      {readiness: true, started: true},
		"startup undecided":               {startup: true, probes: probed(observed.Undecided, observed.NoProbe)},
		"startup failed":                  {startup: true, probes: probed(observed.Failure, observed.NoProbe)},
		"startup passed":                  {startup: true, probes: probed(observed.Success, observed.NoProbe), started: true, ready: true},
		"startup holds readiness back":    {startup: true, readiness: true, probes: probed(observed.Undecided, observed.Success)},
		"startup passed, readiness not":   {startup: true, readiness: true, probes: probed(observed.Success, observed.Failure), started: true},
		"startup not heard of yet":        {startup: true},
		"the probes of another container": {readiness: true, probes: observed.Probes{"id-b": {Readiness: observed.Success}}, started: true},
	} {
		pod := podOf(always, "side", "a")
		if c.state == nil {
			c.state = running
		}
		for _, container := range []*v1.Container{&pod.Spec.InitContainers[0], &pod.Spec.Containers[0]} {
			if c.startup {
				container.StartupProbe = &v1.Probe{}
			}
			if c.readiness {
				container.ReadinessProbe = &v1.Probe{}
			}
		}
		input := in(pod, has(c.state("a"), c.state("side")))
		input.Probes = c.probes
		got := Generate(input)
		for _, s := range []v1.ContainerStatus{got.InitContainerStatuses[0], got.ContainerStatuses[0]} {
			if ptr.Deref(s.Started, false) != c.started || s.Ready != c.ready {
				t.Errorf("%s: %s has started %v, ready %v; want %v, %v", name, s.Name, *s.Started, s.Ready, c.started, c.ready)
			}
		}
		if ready := condition(got.Conditions, v1.PodReady).Status == v1.ConditionTrue; ready != c.ready {
			t.Errorf("%s: the pod is ready: %v", name, ready)
		}
	}
}

// A restart of the agent doesn't make a pod unready before its probes have run again; a new container starts without
// results.
func TestReadinessOutlivesTheAgent(t *testing.T) {
	pod := podOf(always, "a")
	pod.Spec.Containers[0].StartupProbe, pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{}, &v1.Probe{}
	input := in(pod, has(running("a")))
	input.Probes = observed.Probes{"id-a": {Startup: observed.Success, Readiness: observed.Success}}
	before := Generate(input)
	input.Previous, input.Probes = &before, nil
	if s := Generate(input).ContainerStatuses[0]; !*s.Started || !s.Ready {
		t.Errorf("nobody has asked yet: started %v, ready %v", *s.Started, s.Ready)
	}
	input.Probes = observed.Probes{"id-a": {Startup: observed.Success, Readiness: observed.Failure}}
	if s := Generate(input).ContainerStatuses[0]; !*s.Started || s.Ready {
		t.Errorf("its probe failed: started %v, ready %v", *s.Started, s.Ready)
	}
	input.Runtime, input.Probes = has(attempt(1, running("a"))), nil
	if s := Generate(input).ContainerStatuses[0]; *s.Started || s.Ready {
		t.Errorf("another container: started %v, ready %v", *s.Started, s.Ready)
	}
}
