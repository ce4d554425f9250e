package podexecapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

var consumer = access.Caller{Role: access.Consumer}

// become is the pod in another phase.
func become(p podview.Pod, phase v1.PodPhase) podview.Pod {
	p.Status = &v1.PodStatus{Phase: phase}
	return p
}

func TestWatch(t *testing.T) {
	a, b := pod("default", "a", "1"), pod("default", "b", "2")
	s := serve(a, b)
	w := startWatch(t, s, consumer, nil)
	for _, want := range []string{"a is Running", "b is Running"} {
		if got, token := w.next(); got != want || token != "" {
			t.Fatalf("%q with the token %q; want %q, and no token before all has been told", got, token, want)
		}
	}
	if token := w.want("synced, resumed false"); token == "" {
		t.Error("synced has no token")
	}
	s.cfg.Board.Set(become(a, v1.PodFailed))
	if token := w.want("a is Failed"); token == "" {
		t.Error("a change after synced has no token")
	}
	s.cfg.Board.Remove(b.UID)
	w.want("b is gone")
	w.end()
}

// A watcher that comes back gets what changed since, each pod once; in the middle of a burst as well.
func TestWatchResumes(t *testing.T) {
	a, b, c := pod("default", "a", "1"), pod("default", "b", "2"), pod("default", "c", "3")
	s := serve(a, b, c)
	w := startWatch(t, s, consumer, nil)
	synced := w.want("a is Running", "b is Running", "c is Running", "synced, resumed false")
	w.end()

	nothing := startWatch(t, s, consumer, &podexecv1.WatchPodStatusRequest{ResumeToken: synced})
	nothing.want("synced, resumed true")
	nothing.end()

	s.cfg.Board.Set(become(a, v1.PodPending))
	s.cfg.Board.Remove(b.UID)
	s.cfg.Board.Set(become(a, v1.PodFailed))
	back := startWatch(t, s, consumer, &podexecv1.WatchPodStatusRequest{ResumeToken: synced})
	back.want("b is gone", "a is Failed", "synced, resumed true")
	s.cfg.Board.Set(become(c, v1.PodSucceeded))
	s.cfg.Board.Set(b)
	middle := back.want("c is Succeeded")
	back.end()

	again := startWatch(t, s, consumer, &podexecv1.WatchPodStatusRequest{ResumeToken: middle})
	again.want("b is Running", "synced, resumed true")
	again.end()
}

// A token that can't be honoured gives the current state, and no error.
func TestWatchUnknownTokens(t *testing.T) {
	s, restarted := serve(pod("default", "a", "1")), serve(pod("default", "a", "1"))
	filter := &podconfigv1.PodFilter{Names: []string{"a", "b"}}
	first := startWatch(t, s, consumer, &podexecv1.WatchPodStatusRequest{Filter: filter})
	token := first.want("a is Running", "synced, resumed false")
	first.end()
	for name, tc := range map[string]struct {
		server  *Server
		caller  access.Caller
		names   []string
		token   string
		resumed bool
	}{
		"the same":                {s, consumer, []string{"a", "b"}, token, true},
		"the filter put in order": {s, consumer, []string{"b", "a", "a"}, token, true},
		"another filter":          {s, consumer, []string{"a", "c"}, token, false},
		"no filter":               {s, consumer, nil, token, false},
		"another role":            {s, access.Caller{Role: access.Inspector}, []string{"a", "b"}, token, false},
		"another scope":           {s, access.Caller{Role: access.Consumer, Sources: []string{"file"}}, []string{"a", "b"}, token, false},
		"podexecd was restarted":  {restarted, consumer, []string{"a", "b"}, token, false},
		"from the future":         {s, consumer, []string{"a", "b"}, strings.Replace(token, ".1.", ".9.", 1), false},
		"nonsense":                {s, consumer, []string{"a", "b"}, "x", false},
		"cut off":                 {s, consumer, []string{"a", "b"}, token[:len(token)-20], false},
		"none":                    {s, consumer, []string{"a", "b"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := startWatch(t, tc.server, tc.caller, &podexecv1.WatchPodStatusRequest{
				Filter: &podconfigv1.PodFilter{Names: tc.names}, ResumeToken: tc.token,
			})
			if !tc.resumed {
				w.want("a is Running")
			}
			w.want(fmt.Sprintf("synced, resumed %v", tc.resumed))
			w.end()
		})
	}
}

// A watcher receives neither the addition nor the removal of a pod outside of its view.
func TestWatchView(t *testing.T) {
	mine, other := pod("default", "mine", "1"), pod("other", "other", "2")
	api := pod("default", "api", "3")
	api.Source = "api"
	for name, tc := range map[string]struct {
		caller access.Caller
		filter *podconfigv1.PodFilter
	}{
		"by filter": {consumer, &podconfigv1.PodFilter{Sources: []string{"file"}, Namespaces: []string{"default"}}},
		"by scope":  {access.Caller{Role: access.Consumer, Sources: []string{"file"}}, &podconfigv1.PodFilter{Namespaces: []string{"default"}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(other, api, mine)
			w := startWatch(t, s, tc.caller, &podexecv1.WatchPodStatusRequest{Filter: tc.filter})
			token := w.want("mine is Running", "synced, resumed false")
			s.cfg.Board.Set(become(other, v1.PodFailed))
			s.cfg.Board.Remove(other.UID)
			s.cfg.Board.Remove(api.UID)
			s.cfg.Board.Set(become(mine, v1.PodFailed))
			w.want("mine is Failed")
			// Another source has it now: for this watcher it is gone.
			moved := mine
			moved.Source = "api"
			s.cfg.Board.Set(moved)
			w.want("mine is gone")
			w.end()
			back := startWatch(t, s, tc.caller, &podexecv1.WatchPodStatusRequest{Filter: tc.filter, ResumeToken: token})
			back.want("mine is gone", "synced, resumed true")
			back.end()
		})
	}
	w := startWatch(t, serve(mine), access.Caller{Role: access.Consumer, Nodes: []string{"n2"}}, nil)
	w.want("synced, resumed false")
	w.end()
}

// A watcher that doesn't read misses what comes and goes meanwhile, and nothing of how it is in the end.
func TestSlowWatcher(t *testing.T) {
	a, b := pod("default", "a", "1"), pod("default", "b", "2")
	s := serve(a, b)
	w := startWatch(t, s, consumer, nil)
	w.want("a is Running") // It is being sent b.
	for i := range 1000 {
		a.WaitsFor = fmt.Sprint(i)
		s.cfg.Board.Set(a)
	}
	s.cfg.Board.Set(become(b, v1.PodSucceeded))
	s.cfg.Board.Set(become(a, v1.PodFailed))
	w.want("b is Running", "synced, resumed false", "b is Succeeded", "a is Failed")
	w.end()
}

// A watcher whose removals are no longer stored starts again on the same stream.
func TestWatcherFallsBehind(t *testing.T) {
	a, b := pod("default", "a", "1"), pod("default", "b", "2")
	s := serve(a, b)
	w := startWatch(t, s, consumer, nil)
	w.want("a is Running") // It is being sent b.
	for i := range 3000 {
		p := pod("default", "brief", fmt.Sprint("brief-", i))
		s.cfg.Board.Set(p)
		s.cfg.Board.Remove(p.UID)
	}
	s.cfg.Board.Set(become(a, v1.PodFailed))
	token := w.want("b is Running", "synced, resumed false", "b is Running", "a is Failed", "synced, resumed false")
	w.end()
	back := startWatch(t, s, consumer, &podexecv1.WatchPodStatusRequest{ResumeToken: token})
	back.want("synced, resumed true")
	back.end()
}

func TestWatchEndsWithTheServer(t *testing.T) {
	s := serve()
	w := startWatch(t, s, consumer, nil)
	w.want("synced, resumed false")
	s.Close()
	if err := <-w.done; status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ends with %v; want UNAVAILABLE", err)
	}
	late := startWatch(t, s, consumer, nil)
	if err := <-late.done; status.Code(err) != codes.Unavailable {
		t.Errorf("one that comes later ends with %v; want UNAVAILABLE", err)
	}
}

func TestWatchRefuses(t *testing.T) {
	for want, tc := range map[string]struct {
		caller access.Caller
		req    *podexecv1.WatchPodStatusRequest
	}{
		"InvalidArgument filter.label_selector": {consumer, &podexecv1.WatchPodStatusRequest{Filter: &podconfigv1.PodFilter{LabelSelector: "a"}}},
		"InvalidArgument filter.nodes":          {consumer, &podexecv1.WatchPodStatusRequest{Filter: &podconfigv1.PodFilter{Nodes: []string{"n"}}}},
		"InvalidArgument format":                {consumer, &podexecv1.WatchPodStatusRequest{Format: 99}},
		"PermissionDenied the caller":           {access.Caller{}, nil},
	} {
		err := <-startWatch(t, serve(pod("default", "a", "1")), tc.caller, tc.req).done
		if got := status.Code(err).String() + " " + status.Convert(err).Message(); !strings.HasPrefix(got, want) {
			t.Errorf("ends with %q; want %s", got, want)
		}
	}
}

// A message of the stream is what ListPods shows to the same caller.
func TestWatchShowsAsListPods(t *testing.T) {
	p := pod("default", "a", "1")
	p.Err = fmt.Errorf("pull: %s", "secret")
	for _, caller := range []access.Caller{consumer, {Role: access.Inspector}} {
		s := serve(p)
		listed, err := s.ListPods(as(t, caller), &podexecv1.ListPodsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		w := startWatch(t, s, caller, nil)
		if got, want := (<-w.messages).GetPod().String(), listed.GetPods()[0].String(); got != want {
			t.Errorf("%s: (-listed +watched):\n%s", caller.Role, cmp.Diff(want, got))
		}
		w.cancel()
		<-w.done
	}
}
