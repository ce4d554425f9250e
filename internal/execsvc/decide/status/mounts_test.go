package status

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// A read-only mount's status shows whether the mounts beneath it are read-only too: if that is requested and the
// runtime supports it.
func TestRecursiveReadOnly(t *testing.T) {
	const disabled, ifPossible, enabled = v1.RecursiveReadOnlyDisabled, v1.RecursiveReadOnlyIfPossible, v1.RecursiveReadOnlyEnabled
	mount := func(mode v1.RecursiveReadOnlyMode) v1.VolumeMount {
		return v1.VolumeMount{Name: "v", MountPath: "/v", ReadOnly: true, RecursiveReadOnly: &mode}
	}
	shared := mount(ifPossible)
	shared.MountPropagation = ptr.To(v1.MountPropagationHostToContainer)
	for name, tc := range map[string]struct {
		mount v1.VolumeMount
		able  bool
		want  *v1.RecursiveReadOnlyMode
	}{
		"writable":              {v1.VolumeMount{Name: "v", MountPath: "/v"}, true, nil},
		"not asked for":         {v1.VolumeMount{Name: "v", MountPath: "/v", ReadOnly: true}, true, ptr.To(disabled)},
		"disabled":              {mount(disabled), true, ptr.To(disabled)},
		"enabled":               {mount(enabled), true, ptr.To(enabled)},
		"if possible":           {mount(ifPossible), true, ptr.To(enabled)},
		"if possible, it isn't": {mount(ifPossible), false, ptr.To(disabled)},
		"propagated":            {shared, true, ptr.To(disabled)},
	} {
		pod := podOf(always, "a")
		pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{tc.mount}
		input := in(pod, has(running("a")))
		input.RecursiveReadOnly = func() bool { return tc.able }
		got := Generate(input).ContainerStatuses[0].VolumeMounts[0].RecursiveReadOnly
		if (got == nil) != (tc.want == nil) || got != nil && *got != *tc.want {
			t.Errorf("%s: %v; want %v", name, ptr.Deref(got, ""), ptr.Deref(tc.want, ""))
		}
	}
}

// An init container that the runtime doesn't have has succeeded if a main one was created, because that proves it. A
// sidecar hasn't.
func TestInitContainerThatIsGone(t *testing.T) {
	for name, main := range map[string]func(string) observed.Container{
		"created": created, "running": running, "ended": func(name string) observed.Container { return exited(name, 1) },
	} {
		pod := podOf(always, "init", "side", "a")
		for _, terminal := range []bool{false, true} {
			input := in(pod, has(main("a")))
			input.Terminal = terminal
			got := Generate(input)
			end := got.InitContainerStatuses[0].State.Terminated
			if end == nil || end.ExitCode != 0 || end.Reason != "Completed" || !got.InitContainerStatuses[0].Ready {
				t.Errorf("%s, terminal %t: %+v; want it to have ended well", name, terminal, got.InitContainerStatuses[0])
			}
			if s := got.InitContainerStatuses[1].State; s.Terminated != nil && s.Terminated.ExitCode == 0 {
				t.Errorf("%s, terminal %t: the sidecar is %+v", name, terminal, s)
			}
		}
	}
	pod := podOf(always, "init", "a")
	if s := Generate(in(pod, has())).InitContainerStatuses[0].State; s.Waiting == nil || s.Waiting.Reason != "PodInitializing" {
		t.Errorf("before a main container was made: %+v", s)
	}
}
