package relay

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/client/stream"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// at reads "api@20" as version 20 of the cluster c, and "api@20,d,1" as one of the cluster d and epoch 1.
func at(texts ...string) position.Positions {
	var out position.Positions
	for _, text := range texts {
		source, rest, _ := strings.Cut(text, "@")
		parts := append(strings.Split(rest, ","), "c", "0")
		p := position.Position{Source: source, ResourceVersion: parts[0], Cluster: "c"}
		if len(parts) > 3 {
			p.Cluster = parts[1]
		}
		if len(parts) > 4 {
			_, _ = fmt.Sscan(parts[2], &p.Epoch)
		}
		out = append(out, p)
	}
	return out
}

func positionsText(all position.Positions) string {
	var out []string
	for _, p := range all {
		text := p.Source + "@" + p.ResourceVersion
		if p.Cluster != "c" || p.Epoch > 0 {
			text += "," + p.Cluster
		}
		if p.Epoch > 0 {
			text += fmt.Sprint(",", p.Epoch)
		}
		if len(p.Replaced) > 0 {
			text += fmt.Sprint("<", strings.Join(p.Replaced, "<"))
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func progressText(p *manifest.Progress) string {
	if p == nil {
		return "none"
	}
	return positionsText(p.Changed) + " / " + positionsText(p.Current)
}

// follows merges a set of the api source with its positions.
func (d *podconfigd) follows(changed, current, text string) {
	d.t.Helper()
	d.second++
	set := mergetest.Set("api", d.second, text)
	set.Progress = &manifest.Progress{Changed: at(changed), Current: at(current)}
	d.hub.Apply(set)
}

// wantPositions waits until a set has these positions.
func (s *sets) wantPositions(want string) manifest.Set {
	s.t.Helper()
	return s.next("with the positions "+want, func(m manifest.Set) bool { return m.Err == nil && progressText(m.Progress) == want })
}

// TestProgress: the positions of a set, after a revision whose cursor has some and a report of what is current.
func TestProgress(t *testing.T) {
	replaces := func(p position.Positions, clusters ...string) position.Positions {
		p[0].Replaced = clusters
		return p
	}
	for name, tc := range map[string]struct {
		cursor, reached position.Positions
		held            string
		want            string
	}{
		"none":                          {nil, at("api@20"), "", "none"},
		"no report":                     {at("api@20"), nil, "", "relay@20 / relay@20"},
		"current":                       {at("api@20"), at("api@100"), "", "relay@20 / relay@100"},
		"a report that is behind":       {at("api@20"), at("api@9"), "", "relay@20 / relay@20"},
		"of another cluster":            {at("api@20"), at("api@30,d"), "", "relay@20 / relay@20"},
		"of another source":             {at("api@20"), at("relay@30"), "", "relay@20 / relay@20"},
		"of the next epoch":             {at("api@20"), at("api@3,c,1"), "", "relay@20 / relay@3,c,1"},
		"of the last epoch":             {at("api@3,c,1"), at("api@20"), "", "relay@3,c,1 / relay@3,c,1"},
		"held":                          {at("api@20"), at("api@3,c,1"), "api", "relay@20 / relay@20"},
		"two sources, one cluster":      {at("api@20", "relay:x@9"), at("api@30", "relay:x@21"), "", "relay@9 / relay@21"},
		"two sources, one held":         {at("api@20", "relay:x@9"), at("api@30", "relay:x@21"), "relay:x", "relay@9 / relay@9"},
		"two sources, two clusters":     {at("api@20", "relay:x@9,d"), at("api@30"), "", "relay@20 relay@9,d / relay@30 relay@9,d"},
		"two sources, two epochs":       {at("api@2,c,1", "relay:x@9"), nil, "", "relay@9 / relay@9"},
		"one that has replaced another": {replaces(at("api@20"), "a", "b"), nil, "", "relay@20<a<b / relay@20<a<b"},
		"two that have replaced others": {
			append(replaces(at("api@20"), "b"), replaces(at("relay:x@9"), "a", "b")...), at("api@30"), "", "relay@9<a<b / relay@9<a<b",
		},
	} {
		m := testMirror(t)
		sources := ready("file", "api", "relay:x")
		for _, s := range sources {
			if s.GetName() == tc.held {
				s.HeldReason = "behind"
			}
		}
		c := cursor(2)
		c.Positions = tc.cursor.Proto()
		take(t, m, &stream.Revision{Synced: &podconfigv1.Synced{Sources: sources, Positions: tc.reached.Proto()}, Cursor: c})
		if got := progressText(m.progress()); got != tc.want {
			t.Errorf("%s: the positions are %s; want %s", name, got, tc.want)
		}
	}
}

// TestPositionsPass: the positions of the first podconfigd pass through two relays, under their own names, to a consumer's
// cursor. What is current passes with heartbeats.
func TestPositionsPass(t *testing.T) {
	up, mid, own := start(t, "up", socket(t), "", "file", "api"), start(t, "mid", socket(t), "", "relay:up"), start(t, "own", "", "", "relay")
	up.set("file", "")
	up.follows("api@10", "api@15", "x: web()")
	up.up()
	mid.up()
	first := relay(t, mid, Config{Name: "relay:up", Endpoint: up.endpoint, Heartbeat: time.Second})
	mid.want("ADD relay:up: web")
	second := relay(t, own, Config{Endpoint: mid.endpoint, Heartbeat: time.Second})
	own.want("ADD relay: web")
	first.wantPositions("relay:up@10 / relay:up@15")
	second.wantPositions("relay@10 / relay@15")
	up.follows("api@20", "api@20", "x: web(image=2)")
	if rev := own.want("UPDATE relay: web"); positionsText(rev.Positions) != "relay@20" {
		t.Errorf("the revision has the positions %s; want relay@20", positionsText(rev.Positions))
	}
	up.follows("api@20", "api@30", "x: web(image=2)")
	second.wantPositions("relay@20 / relay@30")
	if current := own.hub.History().Reached("relay").Current; positionsText(current) != "relay@30" {
		t.Errorf("the relay has reached %s; want relay@30", positionsText(current))
	}
}

// TestUpstreamBehind: a relay that has restarted reaches an upstream that is behind its stored pods. No pod is removed, comes
// back or changes. The upstream's other sources go on. Once it has caught up the relay has the difference.
func TestUpstreamBehind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	up, own := start(t, "up", socket(t), "", "file", "api"), start(t, "own", "", path, "relay")
	up.set("file", "")
	up.follows("api@20", "api@20", "x: web(uid=new)")
	up.up()
	r := relay(t, own, Config{Endpoint: up.endpoint})
	own.want("ADD relay: new")
	r.wantPositions("relay@20 / relay@20")
	r.stop()
	up.kill()
	own.kill()

	up, own = start(t, "up", up.endpoint, "", "file", "api"), start(t, "own", "", path, "relay")
	up.set("file", "a: static()")
	up.follows("api@10", "api@12", "x: web(uid=old) deleted()")
	up.up()
	r = relay(t, own, Config{
		Endpoint: up.endpoint, Heartbeat: time.Second, Stored: func() []Stored { return own.stored("relay") },
		Positions: func() position.Positions { return own.hub.History().Published().Of("relay") },
	})
	own.want("ADD relay: static")
	set := r.wantPositions("relay@20 / relay@20")
	if got := origins(set); got != "file default/static static, api default/web new, api (not ready upstream)!" {
		t.Errorf("while the upstream is behind, the origins are %s", got)
	}
	if req := <-up.requests; req.GetResumeAfter().GetInstanceId() != "" || len(req.GetResumeAfter().GetPositions()) != 1 ||
		req.GetResumeAfter().GetPositions()[0].GetSource() != "api" {
		t.Errorf("the relay resumes after %v; want the position of api alone", req.GetResumeAfter())
	}
	up.follows("api@21", "api@21", "x: web(uid=new) more()")
	own.want("ADD relay: more")
	r.wantPositions("relay@21 / relay@21")
}

// TestOldUpstream: an upstream without positions comes in place of one with them. Nothing of it is taken, and the pods stay. Of
// two upstreams the relay uses the other one.
func TestOldUpstream(t *testing.T) {
	old, oldEndpoint := scripted(t)
	old.pods <- saying(nil, op(9, podconfigv1.PodOperation_POD_OPERATION_REMOVE, wirePod("web()")), synced(9))
	up := start(t, "up", socket(t), "", "api")
	up.follows("api@20", "api@20", "x: web()")
	up.up()
	own := start(t, "own", "", "", "relay")
	r := relay(t, own, Config{Endpoint: up.endpoint + "," + oldEndpoint, Order: "listed"})
	own.want("ADD relay: web")
	r.wantPositions("relay@20 / relay@20")
	up.down()
	r.failed("is behind this consumer in source \"api\"")
	if own.pods() != "web" {
		t.Errorf("the pods are %s; want web", own.pods())
	}
	up.follows("api@25", "api@25", "x: web() db()")
	up.up()
	own.want("ADD relay: db")
	r.wantPositions("relay@25 / relay@25")
}

// TestHeldUpstream: that a source is held at the upstream doesn't end the readiness of a relay that is ready, and no pod
// disappears.
func TestHeldUpstream(t *testing.T) {
	up, own := start(t, "up", socket(t), "", "file", "api"), start(t, "own", "", "", "relay")
	up.set("file", "a: static()")
	up.follows("api@20", "api@20", "x: web()")
	up.up()
	r := relay(t, own, Config{Endpoint: up.endpoint, Heartbeat: time.Second})
	if rev := own.want("ADD relay: static web"); !rev.BecameReady {
		t.Fatal("the relay isn't ready")
	}
	r.wantPositions("relay@20 / relay@20")
	up.kill()
	up = start(t, "up", up.endpoint, "", "file", "api")
	up.set("file", "a: static() more()")
	up.follows("api@10", "api@12", "")
	up.up()
	own.want("ADD relay: more")
	if !own.ready("relay") || own.pods() != "more static web" {
		t.Errorf("the relay is ready: %v, and its pods are %s; want it to stay so, with web", own.ready("relay"), own.pods())
	}
	up.follows("api@30", "api@30", "")
	own.want("REMOVE relay: web")
}

// TestNamed: which sources of the upstream the stored positions belong to.
func TestNamed(t *testing.T) {
	source := func(name string, positions position.Positions) *podconfigv1.Source {
		return &podconfigv1.Source{Name: name, Positions: positions.Proto()}
	}
	replaced := at("api@5,d")
	replaced[0].Replaced = []string{"c"}
	var many []*podconfigv1.Source
	for i := range 2 * position.MaxPositions {
		many = append(many, source(fmt.Sprintf("relay:%d", i), at("x@1")))
	}
	for name, tc := range map[string]struct {
		upstream []*podconfigv1.Source
		want     string
	}{
		"it has none":         {[]*podconfigv1.Source{source("api", nil), source("relay:x", nil)}, "api@20 api@7,e"},
		"it has them":         {[]*podconfigv1.Source{source("api", at("api@1")), source("relay:x", at("relay:x@1,e"))}, "api@20 relay:x@7,e"},
		"two of a cluster":    {[]*podconfigv1.Source{source("api", at("api@1")), source("relay:x", at("relay:x@1"))}, "api@20 relay:x@20 api@7,e"},
		"one has replaced it": {[]*podconfigv1.Source{source("other", replaced)}, "other@20 api@7,e"},
		"an invalid name":     {[]*podconfigv1.Source{source("a b\n", at("api@1"))}, "api@20 api@7,e"},
	} {
		m := testMirror(t, changed("web()", func(p *podconfigv1.Pod) { p.Source = "api" }), wirePod("db()"))
		m.unnamed = at("relay@20", "relay@7,e")
		if got := positionsText(m.named(tc.upstream)); got != tc.want {
			t.Errorf("%s: the positions are %s; want %s", name, got, tc.want)
		}
		if n := len(m.named(many)); n != position.MaxPositions {
			t.Errorf("of many sources there are %d positions; want %d", n, position.MaxPositions)
		}
	}
}
