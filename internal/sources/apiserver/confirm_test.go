package apiserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

func isMetadata(r apitest.Request) bool { return r.Metadata }

// confirming returns a running Source that has read the server, and its number of sets then.
func confirming(t *testing.T, server *apitest.Server, more ...func(*Config)) (*Source, *reading, int) {
	t.Helper()
	s := ofCluster(t, server, "", more...)
	s.probeInterval = time.Hour
	s.confirmBackoff.Duration, s.confirmBackoff.Cap = 2*time.Millisecond, 50*time.Millisecond
	s.confirms.whole = false
	r := start(t, s)
	_, n := r.await("a set", 0, func(set manifest.Set) bool { return set.Err == nil })
	server.Await("a watch", func(v apitest.View) bool {
		return v.Count(func(apitest.Request) bool { return true }, "pods") == 1
	})
	return s, r, n
}

// awaitConfirmed waits for a set that the number confirms.
func (r *reading) awaitConfirmed(after int, number uint64) (manifest.Set, int) {
	r.t.Helper()
	return r.await(fmt.Sprint("confirmation ", number), after, func(s manifest.Set) bool {
		return s.Progress != nil && s.Progress.Confirmed >= number
	})
}

// neverConfirmed fails if a set so far is confirmed.
func (r *reading) neverConfirmed() {
	r.t.Helper()
	sets, _ := r.all()
	for _, set := range sets {
		if set.Progress != nil && set.Progress.Confirmed > 0 {
			r.t.Fatalf("a set of %v is confirmed as %d", originNames(set), set.Progress.Confirmed)
		}
	}
}

// TestConfirmQuiet: a list confirms the pods of a quiet watch, by one request for all calls that came before it. What is
// confirmed for all nodes is current.
func TestConfirmQuiet(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Put(newPod("a"), newPod("b"))
	s, r, n := confirming(t, server)
	later := server.Put(onNode(newPod("elsewhere"), "n2"))
	number := s.Confirm(nil)
	set, n := r.awaitConfirmed(n, number)
	if got := at(t, set.Progress.Current).ResourceVersion; got != later {
		t.Errorf("it is current at %s; want %s", got, later)
	}
	if names := originNames(set); len(names) != 2 {
		t.Errorf("the set has %v", names)
	}
	if n := server.View().Answered(isMetadata); n != 1 {
		t.Errorf("%d lists were requested; want 1", n)
	}
	next := s.Confirm([]string{node})
	if next <= number {
		t.Errorf("the next number is %d, after %d", next, number)
	}
	for range 100 {
		s.Confirm(nil)
	}
	r.awaitConfirmed(n, s.Confirm(nil))
	if n := server.View().Answered(isMetadata); n > 3 {
		t.Errorf("%d lists were requested; want at most one more for those that came while one was made", n)
	}
}

// TestConfirmInPages: more pods than a page has. A page that is too large is requested in smaller ones.
func TestConfirmInPages(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	for i := range 1200 {
		p := newPod(fmt.Sprintf("p%04d", i))
		if i%5 == 0 {
			p.Annotations = map[string]string{"a": strings.Repeat("x", 200<<10)}
		}
		server.Put(p)
	}
	s, r, n := confirming(t, server)
	r.awaitConfirmed(n, s.Confirm(nil))
	view := server.View()
	large := view.Answered(func(r apitest.Request) bool { return r.Metadata && r.Limit == metadataPage })
	small := view.Answered(func(r apitest.Request) bool { return r.Metadata && r.Limit == metadataPage/4 })
	if large != 1 || small < 2 {
		t.Errorf("%d pages of %d and %d of %d were requested", large, metadataPage, small, metadataPage/4)
	}
}

// TestConfirmBehindTheStore: while the watch lags behind the store, nothing is confirmed. The set that is has the events.
func TestConfirmBehindTheStore(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*apitest.Server)
		want   []string
	}{
		"an addition":     {func(s *apitest.Server) { s.Put(newPod("c")) }, []string{"ns/a", "ns/b", "ns/c"}},
		"a change":        {func(s *apitest.Server) { s.Put(newPod("a")) }, []string{"ns/a", "ns/b"}},
		"a deletion":      {func(s *apitest.Server) { s.Delete(newPod("a")) }, []string{"ns/b"}},
		"a replacement":   {func(s *apitest.Server) { s.Put(withUID(newPod("a"), "other")) }, []string{"ns/a", "ns/b"}},
		"of another node": {func(s *apitest.Server) { s.Put(onNode(newPod("c"), "n2")); s.Delete(newPod("b")) }, []string{"ns/a"}},
	} {
		for scope, nodes := range map[string][]string{"one node": nil, "several nodes": {node, "n3"}, "all nodes": {AllNodes}} {
			t.Run(name+", "+scope, func(t *testing.T) {
				server := apitest.New(t, apitest.Config{})
				server.Put(newPod("a"), newPod("b"))
				s, r, n := confirming(t, server, func(c *Config) { c.Nodes = nodes })
				s.confirmPatience = 20 * time.Millisecond
				server.HoldEvents(true)
				test.change(server)
				version := server.Version()
				number := s.Confirm([]string{node})
				// There is a second list as the store hasn't got all of the first one in time.
				server.Await("two lists", func(v apitest.View) bool { return v.Answered(isMetadata) >= 2 })
				r.neverConfirmed()
				server.HoldEvents(false)
				set, _ := r.awaitConfirmed(n, number)
				if got := originNames(set); scope != "all nodes" && !slices.Equal(got, test.want) {
					t.Errorf("the confirmed set has %v; want %v", got, test.want)
				}
				if got := at(t, set.Progress.Changed).ResourceVersion; got != version {
					t.Errorf("the confirmed set has changed at %s; want %s", got, version)
				}
			})
		}
	}
}

// TestConfirmLostEvent: if the watch doesn't bring what is listed, time and again, all is read again. That confirms.
func TestConfirmLostEvent(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Put(newPod("a"))
	s, r, n := confirming(t, server)
	s.confirmPatience = 5 * time.Millisecond
	server.HoldEvents(true)
	server.Put(newPod("lost"))
	set, _ := r.awaitConfirmed(n, s.Confirm(nil))
	if names := originNames(set); len(names) != 2 {
		t.Errorf("the confirmed set has %v", names)
	}
	if n := server.View().Answered(isMetadata); n < maxBehind {
		t.Errorf("%d lists were requested before all was read again; want %d", n, maxBehind)
	}
}

// TestConfirmCutOff: a server that can't be reached never confirms, and confirms once it can.
func TestConfirmCutOff(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Put(newPod("a"))
	s, r, n := confirming(t, server)
	server.Stop()
	_, n = r.awaitErr(n)
	number := s.Confirm(nil)
	if again := s.Confirm(nil); again < number {
		t.Errorf("the next number is %d, after %d", again, number)
	}
	r.neverConfirmed()
	server.Delete(newPod("a"))
	server.Start()
	set, _ := r.awaitConfirmed(n, number)
	if names := originNames(set); len(names) != 0 {
		t.Errorf("the confirmed set has %v; want none", names)
	}
}

// aheadCluster returns the servers of two clusters that have the same pod; theirs is at a later version.
func aheadCluster(t *testing.T) (ours, theirs *apitest.Server) {
	t.Helper()
	ours, theirs = apitest.New(t, apitest.Config{}), apitest.New(t, apitest.Config{})
	ours.Put(withUID(newPod("a"), "1"))
	theirs.Put(withUID(newPod("a"), "1"))
	for range 5 {
		theirs.Put(onNode(newPod("elsewhere"), "n2"))
	}
	return ours, theirs
}

// TestConfirmByAnotherCluster: what another cluster lists, or a list that is refused, confirms nothing.
func TestConfirmByAnotherCluster(t *testing.T) {
	ours, theirs := aheadCluster(t)
	b := newBalancer(t, to(ours))
	s, r, n := confirming(t, ours, b.behind())
	b.send(to(theirs))
	number := s.Confirm(nil)
	theirs.Await("checks", func(v apitest.View) bool { return v.Answered(isCheck) >= 3 })
	r.neverConfirmed()
	b.send(to(ours))
	set, _ := r.awaitConfirmed(n, number)
	if got := at(t, set.Progress.Current); got.Cluster != string(ours.Cluster()) || got.Epoch != 0 {
		t.Errorf("it is confirmed at %+v", got)
	}
}

// TestConfirmWhileTheClusterComesBack: a proxy that goes back from another cluster after the list, and before the checks, has no
// pods confirmed at that cluster's version. Its own list would seem to be of a history that went back.
func TestConfirmWhileTheClusterComesBack(t *testing.T) {
	ours, theirs := aheadCluster(t)
	b := newBalancer(t, to(ours))
	s, r, n := confirming(t, ours, b.behind())
	b.send(func(bool) *apitest.Server {
		if v := theirs.View(); v.Answered(isMetadata) > 0 || v.Answered(isCheck) >= 3 {
			return ours
		}
		return theirs
	})
	set, n := r.awaitConfirmed(n, s.Confirm(nil))
	again, _ := r.awaitConfirmed(n, s.Confirm(nil))
	for _, set := range []manifest.Set{set, again} {
		if got, want := at(t, set.Progress.Current), ours.Version(); got.Epoch != 0 || got.ResourceVersion != want {
			t.Errorf("it is confirmed at %+v; want version %s of the first epoch", got, want)
		}
	}
}

// TestConfirmOldServer: without positions nothing is requested.
func TestConfirmOldServer(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.SetMinor(34)
	s, r, _ := confirming(t, server)
	s.Confirm(nil)
	server.AwaitWatches("pods", 1)
	server.EndWatches()
	server.AwaitWatches("pods", 1)
	r.neverConfirmed()
	if n := server.View().Answered(isMetadata); n != 0 {
		t.Errorf("%d lists were requested", n)
	}
}

// TestScope: the nodes that wait are bounded, and of this source.
func TestScope(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	all := newSource(t, Config{RESTConfig: server.RESTConfig(apitest.Identity{}), Nodes: []string{AllNodes}})
	all.confirms.whole = false
	first := all.Confirm([]string{"n1"})
	if second := all.Confirm([]string{"n2", "n1"}); second != first {
		t.Errorf("the numbers of one confirmation are %d and %d", first, second)
	}
	own, number := all.confirms.begin()
	if len(own.nodes) != 2 || own.all || number != first {
		t.Errorf("confirmation %d is due for %+v; want %d for two nodes", number, own, first)
	}
	if _, number := all.confirms.begin(); number != 0 {
		t.Errorf("confirmation %d is due; want none", number)
	}
	for i := range maxConfirmNodes + 1 {
		all.Confirm([]string{fmt.Sprint("n", i)})
	}
	if own, _ = all.confirms.begin(); !own.all || own.nodes != nil {
		t.Errorf("%+v is due; want all nodes", own)
	}
	for _, name := range []string{"", strings.Repeat("n", 254)} {
		all.Confirm([]string{name})
		if own, _ = all.confirms.begin(); !own.all {
			t.Errorf("%+v is due for %q; want all nodes", own, name)
		}
	}
	last := all.Confirm(nil)
	some := newSource(t, Config{RESTConfig: server.RESTConfig(apitest.Identity{}), Nodes: []string{"n1", "n2"}})
	// What was requested of an earlier Source has a lower number, and may be of any nodes.
	if next := some.Confirm([]string{"n1"}); next <= last {
		t.Errorf("number %d follows %d of an earlier Source", next, last)
	}
	if own, _ = some.confirms.begin(); !own.all {
		t.Errorf("%+v is due first; want all nodes", own)
	}
	some.Confirm([]string{"n1", "n3"})
	if own, _ = some.confirms.begin(); len(own.nodes) != 1 || own.all {
		t.Errorf("%+v is due; want one node", own)
	}
}

// TestConfirmPace: however many calls there are, a list is begun each 250 ms at most.
func TestConfirmPace(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	s, r, n := confirming(t, server)
	began := time.Now()
	for range 4 {
		_, n = r.awaitConfirmed(n, s.Confirm(nil))
	}
	if took := time.Since(began); took < 3*confirmEvery {
		t.Errorf("4 confirmations, one after the other, took %v", took)
	}
}
