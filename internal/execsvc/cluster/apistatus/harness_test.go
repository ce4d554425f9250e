package apistatus_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/execsvc/cluster/apistatus"
	"github.com/podstream/podstream/internal/execsvc/cluster/apistatus/fakeapi"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podset"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/logtest"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	waiting     = podexecv1.WorkerState_WORKER_STATE_WAITING
	syncing     = podexecv1.WorkerState_WORKER_STATE_SYNCING
	terminating = podexecv1.WorkerState_WORKER_STATE_TERMINATING
	terminated  = podexecv1.WorkerState_WORKER_STATE_TERMINATED
	finished    = podexecv1.WorkerState_WORKER_STATE_FINISHED
)

// node is a node with its API server. Its times are the bubble's.
type node struct {
	t             *testing.T
	api           *fakeapi.Server
	faults        faults
	pods, mirrors *podset.Set
	registry      *prometheus.Registry

	// mu guards what a life replaces.
	mu     sync.Mutex
	board  *podview.Board
	writer *apistatus.Writer
	log    logtest.Buffer
	cancel func()
}

// newNode returns a node after its first start, in a synctest bubble; the stream has the server's pods without delay.
func newNode(t *testing.T) *node {
	n := &node{t: t, api: &fakeapi.Server{}, pods: podset.New(), mirrors: podset.New()}
	n.api.Changed, n.api.Fault = n.stream, n.faults.fault
	n.live()
	t.Cleanup(func() { n.cancel() })
	return n
}

// live begins another life of podexecd, with an empty board.
func (n *node) live() {
	if n.cancel != nil {
		n.cancel()
	}
	n.registry = prometheus.NewRegistry()
	b := podview.New()
	w := apistatus.New(apistatus.Config{
		Client: n.api.Client(), Board: b, Pod: n.pods.Get, Mirror: n.mirrors.ByName, Metrics: n.registry,
		Logger: slog.New(slog.NewTextHandler(&n.log, nil)),
	})
	n.mu.Lock()
	n.board, n.writer = b, w
	n.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	n.cancel = sync.OnceFunc(func() {
		cancel()
		<-done
	})
}

// stream brings a pod as the API server has it.
func (n *node) stream(pod *v1.Pod, removed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	set := n.pods
	if _, mirror := pod.Annotations[podmeta.MirrorAnnotation]; mirror {
		set = n.mirrors
	} else {
		pod.Annotations = map[string]string{"kubernetes.io/config.source": "api"}
	}
	if removed {
		set.Remove(pod.UID)
		n.board.Remove(pod.UID)
	} else {
		set.Put(pod)
	}
	n.writer.Wake(pod)
}

// show has podexecd show a pod, and waits until nothing more happens by itself.
func (n *node) show(uid types.UID, state podexecv1.WorkerState, status *v1.PodStatus) {
	n.t.Helper()
	pod := n.pods.Get(uid)
	if pod == nil {
		n.t.Fatalf("pod %s isn't desired", uid)
	}
	n.mu.Lock()
	n.board.Set(podview.Pod{
		UID: uid, Namespace: pod.Namespace, Name: pod.Name, Source: pod.Annotations["kubernetes.io/config.source"], State: state, Desired: true,
		Changed: time.Now(), Status: status, Object: pod,
	})
	n.mu.Unlock()
	synctest.Wait()
}

// create makes a pod at the API server.
func (n *node) create(uid types.UID) *v1.Pod {
	return n.api.Put(newPod(uid))
}

// createReady makes pods at the API server, and has podexecd show them as ready, one after the other.
func (n *node) createReady(uids ...types.UID) {
	n.t.Helper()
	for _, uid := range uids {
		n.create(uid)
		n.show(uid, syncing, ready())
	}
}

func newPod(uid types.UID) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + string(uid), UID: uid, Generation: 1},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c"}}},
		Status: v1.PodStatus{Phase: v1.PodPending, QOSClass: v1.PodQOSBestEffort, Conditions: []v1.PodCondition{
			{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now()).Rfc3339Copy()},
		}},
	}
}

// patches are the statuses that were sent for a pod, as patches.
func (n *node) patches(uid types.UID) []v1.PodStatus {
	n.t.Helper()
	var out []v1.PodStatus
	for _, r := range n.requests("patch", uid) {
		var p v1.Pod
		if err := json.Unmarshal(r.Body, &p); err != nil {
			n.t.Fatal(err)
		}
		out = append(out, p.Status)
	}
	return out
}

// requests are those of a verb for a pod's name. Empty: of all.
func (n *node) requests(verb string, uid types.UID) []fakeapi.Request {
	var out []fakeapi.Request
	for _, r := range n.api.Requests() {
		if (verb == "" || r.Verb == verb) && (uid == "" || r.Name == "pod-"+string(uid)) {
			out = append(out, r)
		}
	}
	return out
}

// status returns the API server's status of a pod.
func (n *node) status(uid types.UID) *v1.PodStatus {
	n.t.Helper()
	pod := n.api.Get("ns", "pod-"+string(uid))
	if pod == nil {
		n.t.Fatalf("pod %s isn't at the API server", uid)
	}
	return &pod.Status
}

// wantGone checks that the API server has the pod no more.
func (n *node) wantGone(uid types.UID) {
	n.t.Helper()
	if n.api.Get("ns", "pod-"+string(uid)) != nil {
		n.t.Fatal("the pod is still there")
	}
}

// boardPod is a desired pod as it is shown, in the state syncing.
func (n *node) boardPod(uid types.UID, status *v1.PodStatus) podview.Pod {
	pod := newPod(uid)
	pod.Annotations = map[string]string{"kubernetes.io/config.source": "api"}
	return podview.Pod{
		UID: uid, Namespace: pod.Namespace, Name: pod.Name, Source: "api", State: syncing, Desired: true, Changed: time.Now(), Status: status, Object: pod,
	}
}
