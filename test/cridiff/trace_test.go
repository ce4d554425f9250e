package cridiff

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// callOf returns an encoded call.
func callOf(t *testing.T, method, failure string, req, resp proto.Message) Call {
	t.Helper()
	request, err := proto.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	response, err := proto.Marshal(resp)
	if err != nil {
		t.Fatal(err)
	}
	return Call{Method: method, Request: request, Response: response, Err: failure}
}

// lifeOf returns the calls of a pod's life, the last of which doesn't end.
func lifeOf(t *testing.T) []Call {
	t.Helper()
	sandbox := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Uid: "u1"}}
	container := &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: "app"}}
	exec := func(command string) *runtimeapi.ExecSyncRequest {
		return &runtimeapi.ExecSyncRequest{ContainerId: "id-c", Cmd: []string{command}}
	}
	return []Call{
		callOf(t, "UpdateRuntimeConfig", "", &runtimeapi.UpdateRuntimeConfigRequest{}, &runtimeapi.UpdateRuntimeConfigResponse{}),
		callOf(t, "RunPodSandbox", "", &runtimeapi.RunPodSandboxRequest{Config: sandbox}, &runtimeapi.RunPodSandboxResponse{PodSandboxId: "id-s"}),
		callOf(t, "CreateContainer", "", &runtimeapi.CreateContainerRequest{PodSandboxId: "id-s", SandboxConfig: sandbox, Config: container},
			&runtimeapi.CreateContainerResponse{ContainerId: "id-c"}),
		callOf(t, "StartContainer", "container id-c of sandbox id-s, exec "+strings.Repeat("0f", 32), &runtimeapi.StartContainerRequest{ContainerId: "id-c"}, &runtimeapi.StartContainerResponse{}),
		callOf(t, "ExecSync", "", exec("probe"), &runtimeapi.ExecSyncResponse{}),
		callOf(t, "ExecSync", "", exec("stop"), &runtimeapi.ExecSyncResponse{}),
		callOf(t, "ReopenContainerLog", "", &runtimeapi.ReopenContainerLogRequest{ContainerId: "id-c"}, &runtimeapi.ReopenContainerLogResponse{}),
		callOf(t, "StopContainer", "", &runtimeapi.StopContainerRequest{ContainerId: "id-c"}, &runtimeapi.StopContainerResponse{}),
		callOf(t, "StopPodSandbox", "", &runtimeapi.StopPodSandboxRequest{PodSandboxId: "id-s"}, &runtimeapi.StopPodSandboxResponse{}),
		callOf(t, "RemoveContainer", "", &runtimeapi.RemoveContainerRequest{ContainerId: "id-c"}, &runtimeapi.RemoveContainerResponse{}),
		callOf(t, "RemoveImage", "", &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: "i"}}, &runtimeapi.RemoveImageResponse{}),
		callOf(t, "RemovePodSandbox", unended, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: "id-s"}, &runtimeapi.RemovePodSandboxResponse{}),
	}
}

func traceOf(t *testing.T, removals bool) Trace {
	t.Helper()
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{
		Name: "app", ReadinessProbe: &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"probe"}}}},
	}}}}
	pod.UID = "u1"
	tracer := newTracer(strings.NewReplacer(), nil, removals)
	for _, c := range lifeOf(t) {
		if err := tracer.add(&c); err != nil {
			t.Fatal(err)
		}
	}
	tracer.addOrder([][]*v1.Pod{{pod}})
	return tracer.trace
}

// TestTrace: each call is a step, with its error, and the order has all but what happens at any time.
func TestTrace(t *testing.T) {
	trace := traceOf(t, true)
	order := trace["u1"][orderStep]
	var steps []string
	for i := range len(order) {
		steps = append(steps, order["["+string(rune('0'+i))+"]"])
	}
	want := []string{
		"RunPodSandbox", "CreateContainer app", "StartContainer app", "ExecSync app stop", "StopContainer app", "StopPodSandbox",
		"RemoveContainer app", "RemovePodSandbox",
	}
	if !slices.Equal(steps, want) {
		t.Errorf("the order is %q; want %q", steps, want)
	}
	for step, want := range map[string]string{
		"StartContainer app": "container CONTAINER of sandbox SANDBOX, exec ID", "RemovePodSandbox": unended, "StopPodSandbox": absent,
	} {
		if got := value(trace["u1"][step], errorPath); got != want {
			t.Errorf("the error of %s is %q; want %q", step, got, want)
		}
	}
	if len(trace["u1"]["ExecSync app probe"]) == 0 || len(trace["u1"]["ReopenContainerLog app"]) == 0 {
		t.Errorf("the pod's steps are %v", trace["u1"])
	}
	if len(trace[noPod]) != 2 || trace[noPod]["RemoveImage i"] == nil || trace[noPod]["UpdateRuntimeConfig"] == nil {
		t.Errorf("without a pod there are %v", trace[noPod])
	}
	if steps := traceOf(t, false)["u1"]; steps["RemoveContainer app"] != nil || steps["RemovePodSandbox"] != nil || steps["StopPodSandbox"] == nil {
		t.Errorf("without removals the steps are %v", steps)
	}
}

// TestOrder: steps of one container stay in their order, also among those of containers that end together.
func TestOrder(t *testing.T) {
	stop := &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"bye"}}}}
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "aside", Lifecycle: stop}}, Containers: []v1.Container{{Name: "a", Lifecycle: stop}, {Name: "b", Lifecycle: stop}},
	}}
	got := ordered(pod, []string{
		"StartContainer b", "ExecSync aside bye", "ExecSync b bye", "ExecSync a bye", "StopContainer b", "StopContainer a", "StopContainer aside",
		"RemoveContainer b", "RemoveContainer a", "RemovePodSandbox",
	})
	want := []string{
		"StartContainer b", "ExecSync a bye", "StopContainer a", "ExecSync b bye", "StopContainer b", "ExecSync aside bye", "StopContainer aside",
		"RemoveContainer a", "RemoveContainer b", "RemovePodSandbox",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the order is %q; want %q", got, want)
	}
}

// TestOrderOfAFault: a hook after its container's end stays there, and so does a sidecar that stops first.
func TestOrderOfAFault(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "aside"}},
		Containers:     []v1.Container{{Name: "a", Lifecycle: &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"bye"}}}}}},
	}}
	steps := []string{"StopContainer aside", "StopContainer a", "ExecSync a bye", "StopPodSandbox"}
	if got := ordered(pod, steps); !slices.Equal(got, steps) {
		t.Errorf("the order is %q; want %q", got, steps)
	}
}

// TestLeft: what has begun and hasn't ended.
func TestLeft(t *testing.T) {
	calls := lifeOf(t)
	for n, want := range map[int][2]int{1: {0, 0}, 2: {1, 1}, 3: {1, 2}, 8: {1, 2}, 9: {0, 2}, 10: {0, 1}, 12: {0, 1}} {
		if r, l := len(running(calls[:n])), len(left(calls[:n])); r != want[0] || l != want[1] {
			t.Errorf("after %d calls %d run and %d are left; want %v", n, r, l, want)
		}
	}
}

// A command has its place by its begin: a preStop hook may end with its container.
func TestTurns(t *testing.T) {
	p := &Proxy{open: map[*Call]bool{}}
	start, hook, stop := &Call{Method: "StartContainer"}, &Call{Method: "ExecSync"}, &Call{Method: "StopContainer"}
	p.begin(start)
	p.record(start)
	p.begin(hook)
	p.begin(stop)
	p.record(stop)
	p.record(hook)
	var methods []string
	calls, _ := p.Calls()
	for _, c := range calls {
		methods = append(methods, c.Method)
	}
	if got := strings.Join(methods, " "); got != "StartContainer ExecSync StopContainer" {
		t.Errorf("the calls are %s", got)
	}
}

func TestWaiting(t *testing.T) {
	failed := waiting(&v1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"})
	again := waiting(&v1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: `Back-off pulling image "a:1": ErrImagePull: not found`})
	if again["reason"] != failed["reason"] || again["message"] != failed["message"] {
		t.Errorf("a failed pull is %v, and later %v", failed, again)
	}
	if other := waiting(&v1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off"}); other["reason"] != "ImagePullBackOff" {
		t.Errorf("a back-off without its cause is %v", other)
	}
}
