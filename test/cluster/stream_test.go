package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/cluster/control"
)

// stream is a consumer of WatchPodUpdates, from the start of its test or from a later time on.
type stream struct {
	messages <-chan *podconfigv1.WatchPodUpdatesResponse
	daemon   *control.Process
}

// revision is one revision of podconfigd, or the initial state.
type revision struct {
	// ops are one text for each pod, such as "ADD web", in their order, and READY if the source became ready.
	ops []string
	// pods are the pods of the ops, with their content; nil for READY.
	pods []*podconfigv1.Pod
	// synced is set if this completes the initial state. apiReady reports whether the source is then ready.
	synced, apiReady bool
}

// watch opens a stream that ends with the test.
func (n *node) watch(t *testing.T) *stream {
	t.Helper()
	messages := receive(t, func(ctx context.Context) (grpc.ServerStreamingClient[podconfigv1.WatchPodUpdatesResponse], error) {
		return n.config.WatchPodUpdates(ctx, &podconfigv1.WatchPodUpdatesRequest{
			Consumer: "test", Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF,
		}, grpc.WaitForReady(true))
	})
	return &stream{messages: messages, daemon: n.daemon}
}

// receive reads a stream until the test ends. The channel is closed if the stream ends before.
func receive[M any](t *testing.T, open func(context.Context) (grpc.ServerStreamingClient[M], error)) <-chan *M {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s, err := open(ctx)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	messages, done := make(chan *M), make(chan struct{})
	go func() {
		defer close(done)
		for {
			m, err := s.Recv()
			if err != nil {
				if ctx.Err() == nil {
					t.Logf("the stream ended: %v", err)
				}
				close(messages)
				return
			}
			select {
			case messages <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return messages
}

// next waits for the next revision, or the initial state.
func (s *stream) next(t *testing.T) revision {
	t.Helper()
	timeout := time.NewTimer(control.Bound)
	defer timeout.Stop()
	var r revision
	for {
		select {
		case m, ok := <-s.messages:
			if !ok {
				t.Fatalf("the stream ended after %q", r.ops)
			}
			r.add(m)
			if m.GetCursor() != nil && m.GetHeartbeat() == nil { // a heartbeat may have one, too
				return r
			}
		case <-timeout.C:
			t.Fatalf("nothing came for %v after %v; the output of podconfigd ends with:\n%s", control.Bound, r.ops, s.daemon.Tail())
		}
	}
}

func (r *revision) add(m *podconfigv1.WatchPodUpdatesResponse) {
	if u := m.GetUpdate(); u != nil {
		op := strings.TrimPrefix(u.GetOp().String(), "POD_OPERATION_")
		for _, p := range u.GetPods() {
			r.ops, r.pods = append(r.ops, op+" "+p.GetRef().GetName()), append(r.pods, p)
		}
		if len(u.GetPods()) == 0 {
			r.ops, r.pods = append(r.ops, "READY"), append(r.pods, nil)
		}
	}
	if m.GetSynced() != nil {
		r.synced = true
		for _, s := range m.GetSynced().GetSources() {
			r.apiReady = r.apiReady || s.GetName() == "api" && s.GetReady()
		}
	}
}

// initial reads the initial state.
func (s *stream) initial(t *testing.T) revision {
	t.Helper()
	var all revision
	for !all.synced {
		r := s.next(t)
		all.ops, all.pods = append(all.ops, r.ops...), append(all.pods, r.pods...)
		all.synced, all.apiReady = r.synced, r.apiReady
	}
	return all
}

// ready reads until the source of a node without pods is ready.
func (s *stream) ready(t *testing.T) {
	t.Helper()
	first := s.initial(t)
	if len(first.ops) > 0 {
		t.Fatalf("a new node starts with %v", first.ops)
	}
	if !first.apiReady {
		s.expect(t, "READY")
	}
}

// expect reads the next revision, which must have these ops, in any order within each kind. It returns the pods
// by the ops' texts.
func (s *stream) expect(t *testing.T, ops ...string) map[string]*podconfigv1.Pod {
	t.Helper()
	r := s.next(t)
	if kinds, want := kindsOf(r.ops), kindsOf(ops); !slices.Equal(kinds, want) || !slices.Equal(sorted(r.ops), sorted(ops)) {
		t.Fatalf("the revision is %q; want %q", r.ops, ops)
	}
	pods := map[string]*podconfigv1.Pod{}
	for i, op := range r.ops {
		pods[op] = r.pods[i]
	}
	return pods
}

// nextAfterEnd reads the next revision after a pod was deleted at once. The server first sets its grace period
// to zero, which is one more DELETE if podconfigd reads it before the deletion.
func (s *stream) nextAfterEnd(t *testing.T, name string) revision {
	t.Helper()
	r := s.next(t)
	if slices.Equal(r.ops, []string{"DELETE " + name}) {
		return s.next(t)
	}
	return r
}

// expectEnd is nextAfterEnd if only the end of the pod is expected.
func (s *stream) expectEnd(t *testing.T, name string) *podconfigv1.Pod {
	t.Helper()
	r := s.nextAfterEnd(t, name)
	if !slices.Equal(r.ops, []string{"REMOVE " + name}) {
		t.Fatalf("the revision is %q; want REMOVE of %s", r.ops, name)
	}
	return r.pods[0]
}

func kindsOf(ops []string) []string {
	var kinds []string
	for _, op := range ops {
		kind, _, _ := strings.Cut(op, " ")
		kinds = append(kinds, kind)
	}
	return slices.Compact(kinds)
}

func sorted(ops []string) []string { return slices.Sorted(slices.Values(ops)) }

// decode returns the content of the pod, which must have this UID.
func decode(t *testing.T, pod *podconfigv1.Pod, like *corev1.Pod) *corev1.Pod {
	t.Helper()
	if pod.GetRef().GetUid() != string(like.UID) || pod.GetSource() != "api" {
		t.Errorf("pod %v of source %s; want UID %s of source api", pod.GetRef(), pod.GetSource(), like.UID)
	}
	out := &corev1.Pod{}
	if err := out.Unmarshal(pod.GetProtobuf()); err != nil {
		t.Fatal(fmt.Errorf("decode pod %v: %w", pod.GetRef(), err))
	}
	return out
}
