package podsapi

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// watcher is a stream that holds nothing: a message is taken when the test asks for it.
type watcher struct {
	grpc.ServerStream
	t      *testing.T
	ctx    context.Context
	cancel context.CancelFunc
	events chan *podsv1alpha1.WatchPodsEvent
	done   chan error
}

func (w *watcher) Context() context.Context { return w.ctx }

func (w *watcher) Send(e *podsv1alpha1.WatchPodsEvent) error {
	select {
	case w.events <- e:
		return nil
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
}

func startWatch(t *testing.T, s *Server) *watcher {
	w := &watcher{t: t, events: make(chan *podsv1alpha1.WatchPodsEvent), done: make(chan error, 1)}
	w.ctx, w.cancel = context.WithCancel(t.Context())
	go func() { w.done <- s.WatchPods(nil, w) }()
	t.Cleanup(w.cancel)
	return w
}

// want takes as many events, which must be these: "ADDED web Running".
func (w *watcher) want(want ...string) {
	w.t.Helper()
	for i, words := range want {
		var e *podsv1alpha1.WatchPodsEvent
		select {
		case e = <-w.events:
		case err := <-w.done:
			w.t.Fatalf("the stream ended: %v", err)
		}
		got := e.GetType().String()
		if e.GetPod() != nil {
			pod := decode(w.t, e.GetPod())
			got += " " + pod.Name + " " + string(pod.Status.Phase)
		}
		if got != words {
			w.t.Fatalf("event %d of %q is %q", i+1, want, got)
		}
	}
}

func TestWatch(t *testing.T) {
	b := podview.New()
	web, db := shown("web"), shown("db")
	b.Set(web)
	b.Set(db)
	b.Set(unclaimed("found"))
	w := startWatch(t, New(b, nil))
	w.want("ADDED web Running", "ADDED db Running", "INITIAL_SYNC_COMPLETE")

	db.Status = &v1.PodStatus{Phase: v1.PodFailed}
	b.Set(db)
	w.want("MODIFIED db Failed")
	// What this API doesn't show is no event.
	web.WaitsFor = "a backoff"
	b.Set(web)
	b.Set(shown("found"))
	w.want("ADDED found Running")
	b.Remove(web.UID)
	w.want("DELETED web ")
	b.Set(web)
	w.want("ADDED web Running")
	w.cancel()
	if err := <-w.done; status.Code(err) != codes.Canceled {
		t.Errorf("canceled, the stream ends with %v", err)
	}
}

// A watcher that is so slow that removals are no longer stored still receives them.
func TestSlowWatcher(t *testing.T) {
	b := podview.New()
	for _, name := range []string{"a", "b", "c"} {
		b.Set(shown(name))
	}
	w := startWatch(t, New(b, nil))
	w.want("ADDED a Running") // It is being sent b.
	b.Remove("uid-c")
	for i := range 2000 {
		p := shown("brief")
		p.UID = types.UID(fmt.Sprint(i))
		b.Set(p)
		b.Remove(p.UID)
	}
	w.want("ADDED b Running", "ADDED c Running", "INITIAL_SYNC_COMPLETE", "DELETED c ")
	b.Set(shown("d"))
	w.want("ADDED d Running")
}

func TestWatchEndsWithTheServer(t *testing.T) {
	b := podview.New()
	b.Set(shown("web"))
	client, s := dial(t, b)
	stream, err := client.WatchPods(t.Context(), &podsv1alpha1.WatchPodsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []podsv1alpha1.EventType{podsv1alpha1.EventType_ADDED, podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE} {
		if e, err := stream.Recv(); err != nil || e.GetType() != want {
			t.Fatalf("%v, %v; want %s", e, err, want)
		}
	}
	s.Close()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ends with %v; want UNAVAILABLE", err)
	}
}
