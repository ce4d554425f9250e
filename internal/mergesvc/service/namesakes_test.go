package service_test

import (
	"testing"

	"github.com/podstream/podstream/internal/mergesvc/merge"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// behind is a gateway that is behind consumers with two pods of one name, of the held source api and of the file.
func behind(t *testing.T, o options) *gateway {
	g := startGateway(t, o)
	g.set("file", "a: web(uid=static)")
	g.follow(at("10"), at("12"), 0, "x: other()")
	return g
}

// namesake is a request of such a consumer, in the given mode.
func namesake(mode podconfigv1.NotificationMode) *podconfigv1.WatchPodUpdatesRequest {
	req := ahead(at("20"), "api/held/web", "file/static/web")
	req.Mode = mode
	return req
}

// wantMasked has the file make a pod with the name of the held pod, and checks that the consumer gets only the one that comes next.
func wantMasked(g *gateway, s *stream) {
	g.set("file", "a: web(uid=fresh)")
	g.set("file", "a: web(uid=fresh) db()")
	s.want("ADD file: db")
}

// TestG11Namesake: a consumer has a pod of another source with the name of a held pod. It gets what becomes of that pod, and
// its successor in the same unit. Once the pod is removed, it gets no pod that takes the name later, until the held pod is
// decided.
func TestG11Namesake(t *testing.T) {
	g := behind(t, options{})
	s := g.watch(namesake(incremental))
	s.want("UPDATE file: static")
	wantHeld(t, s.want("synced"), true)
	g.set("file", "a: web(uid=successor)")
	s.want("REMOVE file: static", "ADD file: successor")
	g.set("file", "a: web(uid=successor,image=2)")
	s.want("UPDATE file: successor")
	g.set("file", "")
	s.want("REMOVE file: successor")
	g.set("file", "a: web(uid=fresh)")
	g.set("file", "a: web(uid=fresh,image=2) db()")
	s.want("ADD file: db")
	g.set("file", "b: web(uid=later) db()")
	g.set("file", "b: web(uid=later)")
	s.want("REMOVE file: db")
	g.follow(at("20"), at("20"), 0, "x: other()")
	wantPosition(t, s.want("REMOVE api: held", "ADD file: later", "ADD api: other"), "20", false)
}

// TestG11NamesakeAtStart: the namesake is removed by the first unit of the stream.
func TestG11NamesakeAtStart(t *testing.T) {
	for mode, want := range map[podconfigv1.NotificationMode]struct{ start, added, released []string }{
		incremental: {[]string{"REMOVE file: static"}, []string{"ADD file: db"}, []string{"REMOVE api: held", "ADD file: fresh", "ADD api: other"}},
		snapshot:    {[]string{"SET file:", "synced"}, []string{"SET file: db"}, []string{"SET file: db other fresh", "ADD api:"}},
	} {
		g := behind(t, options{})
		g.set("file", "")
		s := g.watch(namesake(mode))
		u := s.want(want.start...)
		if u.synced == nil {
			u = s.want("synced")
		}
		wantHeld(t, u, true)
		g.set("file", "a: web(uid=fresh)")
		g.set("file", "a: web(uid=fresh) db()")
		s.want(want.added...)
		g.follow(at("20"), at("20"), 0, "x: other()")
		s.want(want.released...)
	}
}

// TestG11NamesakeModes: in the snapshot modes a SET without the namesake removes it. The next SET has no pod of its name.
func TestG11NamesakeModes(t *testing.T) {
	for _, mode := range []podconfigv1.NotificationMode{snapshot, snapshotAndUpdates} {
		g := behind(t, options{})
		s := g.watch(namesake(mode))
		wantHeld(t, s.want("SET file: static", "synced"), true)
		g.set("file", "a: web(uid=successor) db()")
		s.want("SET file: db successor")
		g.set("file", "a: db()")
		s.want("SET file: db")
		g.set("file", "a: web(uid=fresh)")
		s.want("SET file:")
		g.follow(at("20"), at("20"), 0, "x: other()")
		s.want("SET file: other fresh", "ADD api:")
	}
}

// TestG11NamesakeUndecided: a namesake is undecided until its source was read, and the name isn't masked before.
func TestG11NamesakeUndecided(t *testing.T) {
	g := startGateway(t, options{})
	g.follow(at("10"), at("12"), 0, "x: other()")
	s := g.watch(namesake(incremental))
	s.want("synced")
	g.set("file", "a: web(uid=successor)")
	s.want("REMOVE file: static", "ADD file: successor")
	g.set("file", "")
	s.want("REMOVE file: successor")
	wantMasked(g, s)
	g.follow(at("20"), at("20"), 0, "")
	s.want("REMOVE api: held", "ADD file: fresh", "ADD api:")
}

// TestG11NamesakePassed: the consumer doesn't read while a namesake is removed, and its successor isn't sent any more, as it
// is gone meanwhile, too. It then gets no pod that has the name by now.
func TestG11NamesakePassed(t *testing.T) {
	g := behind(t, options{revisions: 2})
	req := namesake(incremental)
	req.Format = podconfigv1.PodFormat_POD_FORMAT_PROTOBUF
	slow := g.gated(req)
	// read returns the messages up to the first one that last reports.
	read := func(last func(*podconfigv1.WatchPodUpdatesResponse) bool) string {
		var u unit
		for {
			m := slow.waits()
			slow.take()
			if u.messages = append(u.messages, m); last(m) {
				return u.String()
			}
		}
	}
	current := func(m *podconfigv1.WatchPodUpdatesResponse) bool {
		return m.GetCursor().GetRevision() == g.hub.History().Number()
	}
	read(func(m *podconfigv1.WatchPodUpdatesResponse) bool { return m.GetSynced() != nil })
	g.set("file", "a: first(pad=700) web(uid=successor,pad=700)")
	old := g.versions()
	for m := slow.waits(); m.GetUpdate().GetOp() != podconfigv1.PodOperation_POD_OPERATION_ADD; m = slow.waits() {
		slow.take()
	}
	g.follow(at("12"), at("12"), 0, "x: other(image=2)")
	for _, text := range []string{"a: web(uid=fresh)", "a: web(uid=fresh,image=2)", "a: db()", "a: web(uid=fresh) db()"} {
		g.set("file", text)
	}
	collected(t, old)
	slow.take()
	if got, want := read(current), "heartbeat\nREMOVE file: first\nADD file: db"; got != want {
		t.Errorf("then come\n%s\nwant\n%s", got, want)
	}
	g.follow(at("20"), at("20"), 0, "x: other()")
	if got, want := read(current), "REMOVE api: held\nADD file: fresh\nADD api: other"; got != want {
		t.Errorf("at the release come\n%s\nwant\n%s", got, want)
	}
}

// TestG11NamesakeFiltered: a namesake that leaves the view by its labels is gone for the consumer. When it matches again, it
// would take the name from the held pod.
func TestG11NamesakeFiltered(t *testing.T) {
	g := behind(t, options{})
	g.set("file", "a: web(uid=static,label.app=x)")
	req := namesake(incremental)
	req.Filter = &podconfigv1.PodFilter{LabelSelector: "app=x"}
	s := g.watch(req)
	s.want("UPDATE file: static")
	s.want("synced")
	g.set("file", "a: web(uid=static)")
	s.want("REMOVE file: static")
	g.set("file", "a: web(uid=static,label.app=x)")
	g.set("file", "a: web(uid=static,label.app=x) db(label.app=x)")
	s.want("ADD file: db")
	g.follow(at("20"), at("20"), 0, "x: other()")
	s.want("REMOVE api: held", "ADD file: static", "ADD api:")
}

// TestG11NamesakesOfTwoSources: the name is masked once the consumer has a namesake of no source.
func TestG11NamesakesOfTwoSources(t *testing.T) {
	sources := []merge.Source{{Name: "file"}, {Name: "api"}, {Name: "http"}}
	g := behind(t, options{})
	g.hub.Configure(sources)
	req := namesake(incremental)
	req.KnownPods = append(req.KnownPods, &podconfigv1.KnownPod{Source: "http", Uid: "second", Namespace: "default", Name: "web"})
	s := g.watch(req)
	s.want("UPDATE file: static")
	s.want("synced")
	g.set("file", "")
	s.want("REMOVE file: static")
	g.set("file", "a: web(uid=again)")
	s.want("ADD file: again")
	g.set("file", "")
	s.want("REMOVE file: again")
	g.set("http", "")
	s.want("REMOVE http: second", "ADD http:")
	wantMasked(g, s)
}
