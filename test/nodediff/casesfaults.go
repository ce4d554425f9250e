package nodediff

import (
	"context"
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// errRuntime is the error of a planted fault of the runtime.
var errRuntime = errors.New("the runtime has a planted fault")

// failing returns a fault of these methods.
func failing(methods ...string) func(string, []byte) error {
	return func(method string, _ []byte) error {
		if slices.Contains(methods, method) {
			return errRuntime
		}
		return nil
	}
}

// faultCases are those of a runtime that fails.
func faultCases() []*Case {
	return []*Case{
		{Name: "no-sandbox", Act: after(failing("RunPodSandbox"), pod("web", "sleep")), Wants: []string{"event Pod/web FailedCreatePodSandBox"}},
		{Name: "no-container", Act: after(failing("CreateContainer"), pod("web", "sleep")), Wants: []string{"event Pod/web Failed"}},
		{Name: "no-start", Act: after(failing("StartContainer"), pod("web", "sleep")), Wants: []string{"event Pod/web Failed"}},
		{Name: "no-sandbox-status", Act: after(failing("PodSandboxStatus"), pod("web", "sleep")), Wants: []string{
			"event Pod/web FailedPodSandBoxStatus", "event Pod/web FailedSync"}},
		{Name: "no-kill", Act: noKill, Wants: []string{"event Pod/web FailedKillPod"}},
		{Name: "exceeded-grace-period", Config: "maxPods: 1", Act: exceededGrace, Wants: []string{"event Pod/low Preempting", "event Pod/low ExceededGracePeriod"}},
		{Name: "garbage", Act: garbage, Long: true, Wants: []string{"event Node/node ContainerGCFailed", "event Node/node ImageGCFailed"}},
	}
}

// after creates a pod after the runtime has the fault.
func after(fault func(string, []byte) error, pod *v1.Pod) func(context.Context, *Run) error {
	return func(ctx context.Context, r *Run) error {
		r.Fail(fault)
		return r.Create(ctx, pod)
	}
}

// noKill deletes a pod whose sandbox can't be stopped.
func noKill(ctx context.Context, r *Run) error {
	if err := r.Create(ctx, pod("web", "sleep")); err != nil {
		return err
	}
	if err := r.Await(ctx, "pod web status.phase=Running"); err != nil {
		return err
	}
	r.Fail(failing("StopContainer", "StopPodSandbox"))
	return r.server.Client.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, "web", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](2)})
}

// exceededGrace makes room for a critical pod by one that the runtime doesn't stop.
func exceededGrace(ctx context.Context, r *Run) error {
	low := pod("low", "sleep")
	low.Spec.TerminationGracePeriodSeconds = ptr.To[int64](2)
	if err := r.Create(ctx, low); err != nil {
		return err
	}
	if err := r.Await(ctx, "pod low status.phase=Running"); err != nil {
		return err
	}
	r.Fail(r.hanging("StopContainer"))
	high := pod("high", "sleep")
	high.Namespace, high.Spec.PriorityClassName = metav1.NamespaceSystem, "system-node-critical"
	return r.Create(ctx, high)
}

// garbage makes the runtime fail when the agent looks for garbage.
func garbage(_ context.Context, r *Run) error {
	r.Fail(failing("ListContainers", "ImageFsInfo"))
	return nil
}
