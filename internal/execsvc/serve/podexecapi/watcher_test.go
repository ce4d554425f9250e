package podexecapi

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/access"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// watcher calls WatchPodStatus. Its transport holds nothing: a message is taken when the test asks for it.
type watcher struct {
	grpc.ServerStream
	t        *testing.T
	ctx      context.Context
	cancel   context.CancelFunc
	messages chan *podexecv1.WatchPodStatusResponse
	done     chan error
}

func (w *watcher) Context() context.Context { return w.ctx }

func (w *watcher) Send(m *podexecv1.WatchPodStatusResponse) error {
	select {
	case w.messages <- m:
		return nil
	case <-w.ctx.Done():
		return status.FromContextError(w.ctx.Err()).Err()
	}
}

func startWatch(t *testing.T, s *Server, caller access.Caller, req *podexecv1.WatchPodStatusRequest) *watcher {
	t.Helper()
	w := &watcher{t: t, messages: make(chan *podexecv1.WatchPodStatusResponse), done: make(chan error, 1)}
	w.ctx, w.cancel = context.WithCancel(as(t, caller))
	go func() { w.done <- s.WatchPodStatus(req, w) }()
	t.Cleanup(w.cancel)
	return w
}

// next is the next message, in words, and its token.
func (w *watcher) next() (words, token string) {
	w.t.Helper()
	select {
	case m := <-w.messages:
		switch e := m.GetEvent().(type) {
		case *podexecv1.WatchPodStatusResponse_Pod:
			words = fmt.Sprintf("%s is %s", e.Pod.GetRef().GetName(), e.Pod.GetPhase())
		case *podexecv1.WatchPodStatusResponse_Removed:
			words = e.Removed.GetName() + " is gone"
		case *podexecv1.WatchPodStatusResponse_Synced:
			words = fmt.Sprintf("synced, resumed %v", e.Synced.GetResumed())
		}
		return words, m.GetResumeToken()
	case err := <-w.done:
		w.t.Fatalf("the stream ended: %v", err)
		return "", ""
	}
}

// want takes as many messages, which must be these, and returns the last one's token.
func (w *watcher) want(want ...string) (token string) {
	w.t.Helper()
	for i, words := range want {
		var got string
		if got, token = w.next(); got != words {
			w.t.Fatalf("message %d of %q is %q", i+1, want, got)
		}
	}
	return token
}

// end cancels the call, which must end with that.
func (w *watcher) end() {
	w.t.Helper()
	w.cancel()
	if err := <-w.done; status.Code(err) != codes.Canceled {
		w.t.Errorf("canceled, the stream ends with %v", err)
	}
}
