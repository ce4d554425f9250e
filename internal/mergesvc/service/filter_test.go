package service_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/podstream/podstream/internal/clocktest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// filtered returns a request with a filter.
func filtered(f *podconfigv1.PodFilter, cursor *podconfigv1.Cursor, known ...*podconfigv1.KnownPod) *podconfigv1.WatchPodUpdatesRequest {
	req := reference(cursor, known...)
	req.Filter = f
	return req
}

func byLabel(selector string) *podconfigv1.PodFilter {
	return &podconfigv1.PodFilter{LabelSelector: selector}
}

// TestG10Filtered checks G10: a change that moves a pod into the filter is an ADD, one that moves it out a REMOVE,
// and changes outside of it aren't sent.
func TestG10Filtered(t *testing.T) {
	n := start(t, options{})
	n.set("api", "")
	n.set("file", "a: in(label.app=web) out(label.app=db)")
	s := n.watch(filtered(byLabel("app=web"), nil))
	s.want("ADD file: in")
	s.want("synced")
	n.set("file", "a: in(label.app=web) out(label.app=db,image=2)")
	n.set("file", "a: in(label.app=web) out(label.app=web,image=2)")
	if u := s.want("ADD file: out"); u.cursor.GetRevision() != 4 {
		t.Errorf("entering comes with revision %d; want 4, the one before being out of the filter", u.cursor.GetRevision())
	}
	n.set("file", "a: in(label.app=db) out(label.app=web,image=2)")
	s.want("REMOVE file: in")
	n.set("file", "a: in(label.app=db,phase=Running) out(label.app=web,image=2,phase=Running)")
	s.want("RECONCILE file: out")
	n.set("file", "a: in(label.app=web,phase=Running) out(label.app=db,image=3,phase=Running) new(label.app=web)")
	s.want("REMOVE file: out", "ADD file: new in")
	n.set("file", "a: in(label.app=web,image=2)")
	s.want("REMOVE file: new", "UPDATE file: in")
	n.set("file", "")
	s.want("REMOVE file: in")
}

// TestG10Fields: each field of a filter, through the stream.
func TestG10Fields(t *testing.T) {
	n := start(t, options{})
	n.set("file", "a: web(uid=f1,node=n1,label.app=web) db(uid=f2,ns=prod,node=n2)")
	n.set("api", "x: api(uid=a1,ns=prod,node=n1,label.app=web)")
	for name, tc := range map[string]struct {
		filter *podconfigv1.PodFilter
		want   []string
		// set are its ops in a snapshot mode.
		set string
	}{
		"sources":    {&podconfigv1.PodFilter{Sources: []string{"api"}}, []string{"ADD api: a1"}, "SET api: a1"},
		"nodes":      {&podconfigv1.PodFilter{Nodes: []string{"n1"}}, []string{"ADD file: f1", "ADD api: a1"}, "SET file: f1 a1"},
		"namespaces": {&podconfigv1.PodFilter{Namespaces: []string{"prod"}}, []string{"ADD file: f2", "ADD api: a1"}, "SET file: a1 f2"},
		"names":      {&podconfigv1.PodFilter{Names: []string{"db", "api"}}, []string{"ADD file: f2", "ADD api: a1"}, "SET file: a1 f2"},
		"labels":     {byLabel("app in (web)"), []string{"ADD file: f1", "ADD api: a1"}, "SET file: f1 a1"},
		"all of them": {&podconfigv1.PodFilter{
			Sources: []string{"file", "api"}, Nodes: []string{"n1"}, Namespaces: []string{"prod"}, Names: []string{"api"}, LabelSelector: "app",
		}, []string{"ADD api: a1"}, "SET file: a1"},
	} {
		s := n.watch(filtered(tc.filter, nil))
		if got, want := s.unit().String(), strings.Join(tc.want, "\n"); got != want {
			t.Errorf("by %s the initial state is\n%s\nwant\n%s", name, got, want)
		}
		s.want("synced")
		set := filtered(tc.filter, nil)
		set.Mode = snapshot
		if got, want := n.watch(set).unit().String(), tc.set+"\nsynced"; got != want {
			t.Errorf("by %s the initial state in a snapshot mode is\n%s\nwant\n%s", name, got, want)
		}
	}
}

// TestG9ReadyUnderFilter: the readiness of a source is sent to every consumer that may see the source, even if
// none of its pods passes the filter, and to no other consumer.
func TestG9ReadyUnderFilter(t *testing.T) {
	n := start(t, options{})
	labelled, foreign := n.watch(filtered(byLabel("app=web"), nil)), n.watch(filtered(&podconfigv1.PodFilter{Sources: []string{"api"}}, nil))
	readiness := func(u unit, want string) {
		t.Helper()
		var got []string
		for _, s := range u.synced.GetSources() {
			got = append(got, s.GetName())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("synced lists the sources %q; want %q", got, want)
		}
	}
	readiness(labelled.want("synced"), "file api")
	readiness(foreign.want("synced"), "api")
	n.set("file", "a: db(label.app=db)")
	if u := labelled.want("ADD file:"); !u.messages[0].GetUpdate().GetSourceReady() {
		t.Error("the empty ADD of file says that it isn't ready; want ready")
	}
	n.set("api", "")
	labelled.want("ADD api:")
	if u := foreign.want("ADD api:"); u.cursor.GetRevision() != 2 {
		t.Errorf("the consumer of api gets revision %d first; want 2", u.cursor.GetRevision())
	}
}

// TestG3HeartbeatCursor: after revisions without ops for a view, the heartbeat has the cursor, once. A stream
// that resumes from it receives nothing again, although the history has dropped the previous cursor.
func TestG3HeartbeatCursor(t *testing.T) {
	c := clocktest.NewTimers(time.Unix(0, 0))
	n := start(t, options{clock: c, revisions: 2})
	n.set("file", "a: web(label.app=web) db(image=0)")
	s := n.watch(filtered(byLabel("app=web"), nil))
	s.want("ADD file: web")
	s.want("synced")
	<-c.Set
	for i, image := range []string{"1", "2", "3", "4", "5"} {
		n.set("file", "a: web(label.app=web) db(image="+image+")")
		s.awaitAt(n, uint64(i+2))
	}
	c.Step(30 * time.Second)
	m := s.next()
	if m.GetHeartbeat().GetRevision() != 6 || m.GetCursor().GetRevision() != 6 || m.GetContinued() {
		t.Fatalf("after five revisions without ops came %v; want a heartbeat with the cursor of revision 6", m)
	}
	<-c.Set
	c.Step(30 * time.Second)
	if again := s.next(); again.GetHeartbeat() == nil || again.GetCursor() != nil {
		t.Errorf("then came %v; want a heartbeat without a cursor, because it was sent before", again)
	}
	s.cancel()
	req := filtered(byLabel("app=web"), m.GetCursor())
	req.HeartbeatInterval = durationpb.New(time.Minute)
	resumed := n.watch(req)
	resumed.want("synced")
	n.set("file", "a: db(image=5)")
	resumed.want("REMOVE file: web")
}

// awaitAt waits until everything up to the revision was sent to the only consumer.
func (s *stream) awaitAt(n *node, number uint64) {
	s.t.Helper()
	until(s.t, "the consumer has everything", func() bool {
		cs := n.consumers()
		return n.hub.History().Number() == number && len(cs) == 1 && cs[0].GetState() == podconfigv1.ConsumerState_CONSUMER_STATE_LIVE
	})
}

// TestG7ViewChange: a cursor of another filter isn't resumed from. With known_pods, the consumer receives the
// pods that enter and leave its new view, and otherwise a SET of the view.
func TestG7ViewChange(t *testing.T) {
	n := start(t, options{})
	n.set("api", "")
	n.set("file", "a: web(label.app=web) both(label.app=web,label.tier=x) db(label.app=db,label.tier=x)")
	s := n.watch(filtered(byLabel("app=web"), nil))
	u := s.want("ADD file: both web")
	at := s.want("synced").cursor
	n.watch(filtered(byLabel("app=web"), at)).want("synced")
	n.watch(filtered(byLabel("tier=x"), at)).want("SET file: both db", "synced")
	changed := n.watch(filtered(byLabel("tier=x"), at, known(u)...))
	changed.want("REMOVE file: web", "ADD file: db")
	changed.want("synced")
	whole := n.watch(reference(at, known(u)...))
	whole.want("ADD file: db")
	whole.want("synced")
	// Another order of a filter's entries is the same view.
	names := func(names ...string) *podconfigv1.PodFilter { return &podconfigv1.PodFilter{Names: names} }
	byName := n.watch(filtered(names("web", "db"), nil))
	byName.want("ADD file: db web")
	n.watch(filtered(names("db", "web", "db"), byName.want("synced").cursor)).want("synced")
}

// TestG7FilteredCatchup: a filtered consumer that is behind the history receives the pods that left and
// entered, coalesced.
func TestG7FilteredCatchup(t *testing.T) {
	n := start(t, options{revisions: 1})
	n.set("file", "a: stays(label.app=web) leaves(label.app=web) enters(label.app=db) gone(label.app=web) other(label.app=db)")
	s := n.watch(filtered(byLabel("app=web"), nil))
	s.want("ADD file: gone leaves stays")
	at := s.want("synced").cursor
	s.cancel()
	n.set("file", "a: stays(label.app=web) leaves(label.app=db) enters(label.app=web) other(label.app=db)")
	n.set("file", "a: stays(label.app=web,phase=Running) leaves(label.app=db) enters(label.app=web) other(label.app=db)")
	resumed := n.watch(filtered(byLabel("app=web"), at))
	resumed.want("REMOVE file: gone leaves", "ADD file: enters", "RECONCILE file: stays")
	resumed.want("synced")
}
