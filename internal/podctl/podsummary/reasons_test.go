package podsummary

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// TestWaits: each reason has its own sentence.
func TestWaits(t *testing.T) {
	both := Answered{Podconfigd: true, Podexecd: true}
	unready, unstarted := podctltest.Running("web"), podctltest.Running("web")
	unready.Ready, unstarted.Ready, unstarted.Started = false, false, ptr.To(false)
	ended := corev1.ContainerStatus{Name: "web", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}}}
	status := func(phase corev1.PodPhase, containers ...corev1.ContainerStatus) *corev1.PodStatus {
		return &corev1.PodStatus{Phase: phase, ContainerStatuses: containers}
	}
	for _, tc := range []struct {
		name   string
		have   Answered
		status *corev1.PodStatus // nil: podexecd doesn't have it
		change func(*Pod)
		want   []string
	}{
		{name: "podexecd is away", have: Answered{Podconfigd: true}, want: []string{"That can't be told, as podexecd didn't answer."}},
		{name: "podexecd doesn't have it", have: both, want: []string{
			"podexecd doesn't have it yet: it may be away from podconfigd, or have refused the pod; see `podctl consumers`."}},
		{name: "stale", have: both, change: func(p *Pod) { p.Desired.Stale = true }, want: []string{
			"podexecd doesn't have it yet. podconfigd knows it from its store only: source file isn't ready yet."}},
		{name: "mirror", have: both, change: func(p *Pod) { p.Content.Annotations[MirrorAnnotation] = "x" }, want: []string{
			"It doesn't: it only shows a static pod to the API server, which runs under a UID of its own."}},
		{name: "nothing", have: both, status: status(corev1.PodRunning, podctltest.Running("web")), want: []string{
			"It doesn't: its containers run, and are ready."}},
		{name: "just begun", have: both, status: &corev1.PodStatus{}, want: []string{"Nothing is known of it yet: podexecd has only begun."}},
		{name: "done", have: both, status: status(corev1.PodSucceeded, ended), want: []string{"It doesn't: all of its containers have ended well."}},
		{name: "evicted", have: both, status: &corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on memory"},
			want: []string{"It doesn't: it has failed, and isn't tried again. The reason is Evicted: The node was low on memory."}},
		{name: "not ready", have: both, status: status(corev1.PodRunning, unready), want: []string{
			"Container web runs, and isn't ready by its readiness probe's word."}},
		{name: "not started", have: both, status: status(corev1.PodRunning, unstarted), want: []string{
			"Container web runs, and hasn't started by its startup probe's word."}},
		{name: "ended", have: both, status: status(corev1.PodRunning, ended), want: []string{
			"Container web has ended with exit code 137 (OOMKilled)."}},
		{name: "init container", have: both, status: &corev1.PodStatus{
			Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{podctltest.Running("first"), podctltest.Waiting("second", "PodInitializing", "")},
			ContainerStatuses: []corev1.ContainerStatus{podctltest.Waiting("web", "PodInitializing", "")},
		}, want: []string{"Init container first runs; what comes after it waits for its end."}},
		{name: "retry", have: both, status: status(corev1.PodPending, podctltest.Waiting("web", "ErrImagePull", "no route")), change: func(p *Pod) {
			p.Observed.LastError, p.Observed.RetryTime = "pull: no route.", timestamppb.New(podctltest.Noon.Add(9*time.Second))
		}, want: []string{
			"The last attempt failed: pull: no route.", "podexecd tries again in 9s, at 12:00:10.", "Container web waits: ErrImagePull: no route.",
		}},
		{name: "retry is due", have: both, status: status(corev1.PodRunning, podctltest.Running("web")), change: func(p *Pod) {
			p.Observed.RetryTime = timestamppb.New(podctltest.Noon)
		}, want: []string{"podexecd is about to try again."}},
		{name: "pulls", have: both, status: status(corev1.PodPending), change: func(p *Pod) {
			p.Observed.Pulls = []*podexecv1.ImagePull{
				{Image: "a:1", AskedTime: podctltest.Before(time.Minute), StartedTime: podctltest.Before(time.Second)}, {Image: "b:1", AskedTime: podctltest.Before(time.Minute)},
			}
		}, want: []string{"Image a:1 is being pulled, for 1s now.", "Image b:1 waits for other pulls to end, for 60s now."}},
		{name: "progress", have: both, status: status(corev1.PodPending), change: func(p *Pod) {
			p.Observed.Pulls = []*podexecv1.ImagePull{{
				Image: "a:1", AskedTime: podctltest.Before(time.Minute), StartedTime: podctltest.Before(time.Second),
				Progress: &podexecv1.PullProgress{DoneBytes: 215e6, TotalBytes: ptr.To[int64](500e6), DoneLayers: 3, TotalLayers: ptr.To[int32](7)},
			}}
		}, want: []string{"Image a:1 is being pulled, for 1s now: 215MB of 500MB, 3 of 7 layers."}},
		{name: "readiness gate", have: both, status: status(corev1.PodRunning, podctltest.Running("web")), change: func(p *Pod) {
			p.Content.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example/lb"}}
		}, want: []string{"Its readiness gate example/lb isn't met: no controller has set that condition."}},
		{name: "unwanted", have: both, status: status(corev1.PodRunning, podctltest.Running("web")), change: func(p *Pod) { p.Desired, p.Content = nil, nil },
			want: []string{"It runs, and no source wants it: it is ended once its source is ready."}},
		{name: "another pod of its name", have: both, status: &corev1.PodStatus{}, change: func(p *Pod) { p.Observed.WaitsFor = "pod x to end" },
			want: []string{"It waits for: pod x to end."}},
		{name: "unreadable", have: both, status: &corev1.PodStatus{}, change: func(p *Pod) { p.Status = nil }, want: []string{
			"Its status can't be read by this podctl."}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := podctltest.Pod("default", "web")
			p := &Pod{Ref: podctltest.Ref("file", "default", "web").GetRef(), Desired: podctltest.Ref("file", "default", "web"), Content: pod}
			if tc.status != nil {
				p.Observed, p.Status = podctltest.Observed(t, "default", "web", tc.status), tc.status
			}
			if tc.change != nil {
				tc.change(p)
			}
			if diff := cmp.Diff(tc.want, p.WaitReasons(tc.have, podctltest.Noon)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
