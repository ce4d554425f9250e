package podctl

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// waitingPodexecd shows the pods that podconfigd has, in a state that the test sets.
type waitingPodexecd struct {
	podexecv1.UnimplementedPodExecServiceServer
	w *writer
	// states are shown one after the other, the last one for ever.
	mu     sync.Mutex
	states []func(*podexecv1.ObservedPod) *podexecv1.ObservedPod
}

func (f *waitingPodexecd) ListPods(context.Context, *podexecv1.ListPodsRequest) (*podexecv1.ListPodsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	resp := &podexecv1.ListPodsResponse{}
	for _, p := range f.w.listDesired() {
		o := f.states[0](&podexecv1.ObservedPod{Ref: &podconfigv1.PodRef{Uid: string(p.UID), Namespace: p.Namespace, Name: p.Name}, Desired: true})
		if o != nil {
			resp.Pods = append(resp.Pods, o)
		}
	}
	if len(f.states) > 1 {
		f.states = f.states[1:]
	}
	return resp, nil
}

// in returns a state with a status.
func in(st corev1.PodStatus, waitsFor string) func(*podexecv1.ObservedPod) *podexecv1.ObservedPod {
	return func(o *podexecv1.ObservedPod) *podexecv1.ObservedPod {
		text, err := st.Marshal()
		if err != nil {
			panic(err)
		}
		o.Status, o.WaitsFor = &podexecv1.ObservedPod_Protobuf{Protobuf: text}, waitsFor
		return o
	}
}

// TestApplyWait: --wait waits until podexecd shows the pod as it was written, and ready, or has it no more. It ends with an
// error if the pod has failed, or after --timeout.
func TestApplyWait(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	f := &waitingPodexecd{w: w}
	w.serve("podexecd", func(s *grpc.Server) { podexecv1.RegisterPodExecServiceServer(s, f) })
	unknown := func(*podexecv1.ObservedPod) *podexecv1.ObservedPod { return nil }
	ready := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	pending := corev1.PodStatus{Phase: corev1.PodPending}
	type state = func(*podexecv1.ObservedPod) *podexecv1.ObservedPod
	for i, tc := range []struct {
		states  []state
		timeout string
		want    string
	}{
		{
			[]state{unknown, in(pending, "image v1"), in(ready, "")}, "1m",
			"pod/web created\npodctl: waiting: pod default/web-node1 isn't known to podexecd yet\npodctl: waiting: pod default/web-node1 isn't ready: image v1\n",
		},
		{[]state{in(corev1.PodStatus{Phase: corev1.PodSucceeded}, "")}, "1m", "pod/web configured\n"},
		{
			[]state{in(corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}, "")}, "1m",
			"pod/web configured\npodctl: the manifests are written, and podctl can't wait for the pods: pod default/web-node1 has failed: Evicted\nexit code 1\n",
		},
	} {
		f.mu.Lock()
		f.states = tc.states
		f.mu.Unlock()
		w.want(tc.want, "apply", "-f", w.file("web.yaml", manifestText("web", fmt.Sprint("v", i))), "--wait", "--timeout", tc.timeout)
	}
	f.mu.Lock()
	f.states = []state{in(pending, "")}
	f.mu.Unlock()
	w.wantParts([]string{"apply", "-f", w.file("web.yaml", manifestText("web", "late")), "--wait", "--timeout", "3s"},
		"pod/web configured\n", "podctl waits no longer: it takes longer than 3s (--timeout)", "exit code 1\n")
	// A pod in place of which nothing comes is gone at once here, as the fake shows what is desired.
	w.want("pod \"web\" deleted from default namespace\n", "delete", "web", "--wait", "--timeout", "1m")
}

// TestApplyWaitForRevision: a pod that goes on with its UID is there when a consumer has reported the revision.
func TestApplyWaitForRevision(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	f := &waitingPodexecd{w: w, states: []func(*podexecv1.ObservedPod) *podexecv1.ObservedPod{
		in(corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}, ""),
	}}
	w.serve("podexecd", func(s *grpc.Server) { podexecv1.RegisterPodExecServiceServer(s, f) })
	text := w.file("web.yaml", manifestText("web", "v1"))
	w.want("pod/web created\n", "apply", "-f", text, "--wait")
	// Another set changes an annotation only.
	w.wantParts([]string{"apply", "-f", text, "--set", "two", "--wait", "--timeout", "3s"}, "podexecd hasn't applied revision 4 yet", "exit code 1")
	conn, err := (daemon{name: "podconfigd", endpoint: endpoint{path: w.socket("podconfigd")}}).connect("test")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	api := podconfigv1.NewPodConfigServiceClient(conn)
	stream, err := api.WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{Consumer: "podexecd@node1"})
	if err != nil {
		t.Fatal(err)
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.GetSynced() == nil {
			continue
		}
		_, err = api.ReportApplied(t.Context(), &podconfigv1.ReportAppliedRequest{
			Consumer: "podexecd@node1", Cursor: m.GetCursor(), Outcome: podconfigv1.ApplyOutcome_APPLY_OUTCOME_APPLIED,
		})
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	w.want("pod/web unchanged\n", "apply", "-f", text, "--set", "two", "--wait")
}
