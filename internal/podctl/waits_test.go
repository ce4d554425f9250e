package podctl

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// TestWaits: each thing that a pod may wait for is said in words of its own.
func TestWaits(t *testing.T) {
	both := answered{podconfigd: true, podexecd: true}
	unready, unstarted := running("web"), running("web")
	unready.Ready, unstarted.Ready, unstarted.Started = false, false, ptr.To(false)
	ended := corev1.ContainerStatus{Name: "web", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}}}
	status := func(phase corev1.PodPhase, containers ...corev1.ContainerStatus) *corev1.PodStatus {
		return &corev1.PodStatus{Phase: phase, ContainerStatuses: containers}
	}
	for _, tc := range []struct {
		name   string
		have   answered
		status *corev1.PodStatus // nil: podexecd doesn't have it
		change func(*pair)
		want   []string
	}{
		{name: "podexecd is away", have: answered{podconfigd: true}, want: []string{"That can't be told, as podexecd didn't answer."}},
		{name: "podexecd doesn't have it", have: both, want: []string{
			"podexecd doesn't have it yet: it may be away from podconfigd, or have refused the pod; see `podctl consumers`."}},
		{name: "stale", have: both, change: func(p *pair) { p.desired.Stale = true }, want: []string{
			"podexecd doesn't have it yet. podconfigd knows it from its store only: source file hasn't spoken yet."}},
		{name: "mirror", have: both, change: func(p *pair) { p.pod.Annotations[mirrorAnnotation] = "x" }, want: []string{
			"It doesn't: it only shows a static pod to the API server, which runs under a UID of its own."}},
		{name: "nothing", have: both, status: status(corev1.PodRunning, running("web")), want: []string{
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
			Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{running("first"), waiting("second", "PodInitializing", "")},
			ContainerStatuses: []corev1.ContainerStatus{waiting("web", "PodInitializing", "")},
		}, want: []string{"Init container first runs; what comes after it waits for its end."}},
		{name: "retry", have: both, status: status(corev1.PodPending, waiting("web", "ErrImagePull", "no route")), change: func(p *pair) {
			p.observed.LastError, p.observed.RetryTime = "pull: no route.", timestamppb.New(noon.Add(9*time.Second))
		}, want: []string{
			"The last attempt failed: pull: no route.", "podexecd tries again in 9s, at 12:00:10.", "Container web waits: ErrImagePull: no route.",
		}},
		{name: "retry is due", have: both, status: status(corev1.PodRunning, running("web")), change: func(p *pair) {
			p.observed.RetryTime = timestamppb.New(noon)
		}, want: []string{"podexecd is about to try again."}},
		{name: "pulls", have: both, status: status(corev1.PodPending), change: func(p *pair) {
			p.observed.Pulls = []*podexecv1.ImagePull{
				{Image: "a:1", AskedTime: before(time.Minute), StartedTime: before(time.Second)}, {Image: "b:1", AskedTime: before(time.Minute)},
			}
		}, want: []string{"Image a:1 is being pulled, for 1s now.", "Image b:1 waits for other pulls to end, for 60s now."}},
		{name: "readiness gate", have: both, status: status(corev1.PodRunning, running("web")), change: func(p *pair) {
			p.pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example/lb"}}
		}, want: []string{"Its readiness gate example/lb isn't met: whoever sets that condition hasn't set it."}},
		{name: "unwanted", have: both, status: status(corev1.PodRunning, running("web")), change: func(p *pair) { p.desired, p.pod = nil, nil },
			want: []string{"It runs, and no source wants it: it is ended once its source has spoken."}},
		{name: "another pod of its name", have: both, status: &corev1.PodStatus{}, change: func(p *pair) { p.observed.WaitsFor = "pod x to end" },
			want: []string{"It waits for: pod x to end."}},
		{name: "unreadable", have: both, status: &corev1.PodStatus{}, change: func(p *pair) { p.status = nil }, want: []string{
			"Its status can't be read by this podctl."}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := testPod("default", "web")
			p := &pair{ref: refPod("file", "default", "web").GetRef(), desired: refPod("file", "default", "web"), pod: pod}
			if tc.status != nil {
				p.observed, p.status = observedPod(t, "default", "web", tc.status), tc.status
			}
			if tc.change != nil {
				tc.change(p)
			}
			if diff := cmp.Diff(tc.want, p.waits(tc.have, noon)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
