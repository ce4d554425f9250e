package mirror

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/cluster/apistatus/fakeapi"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podset"
	"github.com/podstream/podstream/internal/logtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a node with its API server. Its times are the bubble's.
type node struct {
	t             *testing.T
	api           *fakeapi.Server
	pods, mirrors *podset.Set
	keeper        *Keeper
	metrics       *prometheus.Registry
	log           logtest.Buffer
	cancel        func()

	mu sync.Mutex
	// lag is how long the stream takes; arrival, when the last change arrives that was sent: none overtakes another.
	lag     time.Duration
	arrival time.Time
	// deaf: the stream brings nothing.
	deaf   bool
	uid    types.UID
	ending bool
	lives  bool
	fault  func(fakeapi.Request) fakeapi.Fault
}

// newNode is a registered node whose sources are ready, with these static pods.
func newNode(t *testing.T, static ...*v1.Pod) *node {
	n := &node{t: t, api: &fakeapi.Server{}, pods: podset.New(), mirrors: podset.New(), uid: "node-uid"}
	n.pods.SetSources(map[string]bool{"file": true})
	for _, pod := range static {
		n.pods.Put(pod)
	}
	n.api.Changed = func(pod *v1.Pod, removed bool) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.deaf {
			return
		}
		at := time.Now().Add(n.lag)
		if !at.After(n.arrival) {
			at = n.arrival.Add(time.Nanosecond)
		}
		n.arrival = at
		time.AfterFunc(time.Until(at), func() { n.stream(pod, removed) })
	}
	n.api.Fault = func(r fakeapi.Request) fakeapi.Fault {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.fault == nil {
			return fakeapi.Fault{}
		}
		return n.fault(r)
	}
	n.live()
	t.Cleanup(func() { n.cancel() })
	return n
}

// live begins another life of podexecd.
func (n *node) live() {
	if n.cancel != nil {
		n.cancel()
	}
	n.metrics = prometheus.NewRegistry()
	n.keeper = New(Config{
		Metrics: n.metrics,
		Client:  n.api.Client(), Node: "n1", Pods: n.pods, Mirrors: n.mirrors, Settled: n.pods.Settled,
		NodeUID: func() types.UID {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.uid
		},
		Ending: func(string, string) bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.ending
		},
		Lives: func(types.UID) bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.lives
		},
		Logger: slog.New(slog.NewTextHandler(&n.log, nil)),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func(k *Keeper) {
		defer close(done)
		k.Run(ctx)
	}(n.keeper)
	n.cancel = sync.OnceFunc(func() {
		cancel()
		<-done
	})
}

// with changes what the node is.
func (n *node) with(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

func (n *node) stream(pod *v1.Pod, removed bool) {
	if !podmeta.IsMirror(pod) {
		return
	}
	if removed {
		n.mirrors.Remove(pod.UID)
	} else {
		n.mirrors.Put(pod)
	}
	n.keeper.Wake(pod)
}

// put adds or replaces a static pod, remove takes it out.
func (n *node) put(pod *v1.Pod) {
	n.pods.Put(pod)
	n.keeper.Wake(pod)
}

func (n *node) remove(pod *v1.Pod) {
	n.pods.Remove(pod.UID)
	n.keeper.Wake(pod)
}

// replace replaces a static pod by another version of it, with another UID, in one step.
func (n *node) replace(former, pod *v1.Pod) {
	n.pods.Remove(former.UID)
	n.put(pod)
}

// hash is that of the static pod that the server's pod of that name mirrors. Empty: there is none.
func (n *node) hash(name string) string {
	pod := n.api.Get("ns", name)
	if pod == nil {
		return ""
	}
	return pod.Annotations[podmeta.MirrorAnnotation]
}

// verbs are the requests so far.
func (n *node) verbs() string {
	var out []string
	for _, r := range n.api.Requests() {
		out = append(out, r.Verb)
	}
	return strings.Join(out, " ")
}

// newPod is a static pod. Its hash is its UID.
func newPod(name, uid string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(uid), Labels: map[string]string{"app": name},
			Annotations: map[string]string{podmeta.SourceAnnotation: "file", podmeta.HashAnnotation: uid, "kubernetes.io/config.seen": "then", "a": "b"},
		},
		Spec: v1.PodSpec{NodeName: "n1", Containers: []v1.Container{{Name: "c", Image: "image"}}},
	}
}

// newMirror is a mirror pod at the server that mirrors a pod with that hash.
func newMirror(name, hash string) *v1.Pod {
	pod := newPod(name, "")
	pod.Annotations = map[string]string{podmeta.MirrorAnnotation: hash}
	return pod
}
