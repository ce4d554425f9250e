package apiserver

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

// at returns the only position, which must be of the source.
func at(t *testing.T, p position.Positions) position.Position {
	t.Helper()
	if len(p) != 1 || p[0].Source != Name || p[0].Confirmed {
		t.Fatalf("the positions are %+v; want one of the source, not confirmed", p)
	}
	return p[0]
}

// awaitVersions waits for a set with these versions as the last change, and as what is current.
func (r *reading) awaitVersions(after int, changed, current string) (manifest.Set, int) {
	r.t.Helper()
	return r.await(fmt.Sprintf("changed at %s, current at %s", changed, current), after, func(s manifest.Set) bool {
		return s.Progress != nil && s.Progress.Changed[0].ResourceVersion == changed && s.Progress.Current[0].ResourceVersion == current
	})
}

// TestProgress: a set has the versions of the last change of its pods, and up to which they are current.
func TestProgress(t *testing.T) {
	for name, mode := range map[string]apitest.WatchListMode{"streaming": apitest.WatchListServed, "list": apitest.WatchListForbidden} {
		t.Run(name, func(t *testing.T) {
			server := apitest.New(t, apitest.Config{})
			server.WatchList(mode)
			server.Put(newPod("a"))
			listed := server.Put(onNode(newPod("elsewhere"), "n2"))
			r := read(t, server)
			set, n := r.await("a set", 0, func(manifest.Set) bool { return true })
			if set.Progress == nil {
				t.Fatal("the first set has no progress")
			}
			if got := at(t, set.Progress.Changed); got.ResourceVersion != listed || got.Cluster != string(server.Cluster()) || got.Epoch != 0 || got.Replaced != nil {
				t.Errorf("the first set is of %+v; want the list's version %s", got, listed)
			}
			if got := at(t, set.Progress.Current); got.ResourceVersion != listed || set.Progress.Confirmed != 0 {
				t.Errorf("the first set is current at %+v, confirmed as %d; want %s and 0", got, set.Progress.Confirmed, listed)
			}
			server.AwaitWatches("pods", 1)
			added := server.Put(newPod("b"))
			_, n = r.awaitVersions(n, added, added)
			bookmarked := server.Put(onNode(newPod("elsewhere"), "n2"))
			server.Bookmark()
			_, n = r.awaitVersions(n, added, bookmarked)
			server.Delete(newPod("b"))
			deleted := server.Version()
			set, n = r.awaitVersions(n, deleted, deleted)
			if names := originNames(set); len(names) != 1 {
				t.Errorf("the set of the deletion's version has %v", names)
			}
			// A list without a difference changes nothing.
			server.Stop()
			later := server.Put(onNode(newPod("elsewhere"), "n2"))
			server.Compact()
			server.Start()
			r.awaitVersions(n, deleted, later)
		})
	}
}

// TestNoProgress: there is no progress if the server doesn't promise that its versions can be compared, or doesn't show of
// which cluster it is.
func TestNoProgress(t *testing.T) {
	refuse := func(resource string) func(*apitest.Server) {
		return func(s *apitest.Server) {
			s.Answer(func(r apitest.Request) *apitest.Reply {
				if r.Resource == resource {
					return apitest.Fail(403, "Forbidden", "no")
				}
				return nil
			})
		}
	}
	for name, prepare := range map[string]func(*apitest.Server){
		"1.34":                       func(s *apitest.Server) { s.SetMinor(34) },
		"a version that isn't shown": refuse("version"),
		"a cluster that isn't shown": refuse("services"),
	} {
		t.Run(name, func(t *testing.T) {
			server := apitest.New(t, apitest.Config{})
			prepare(server)
			server.Put(newPod("a"))
			r := read(t, server)
			_, n := r.awaitPods(0, "ns/a")
			server.AwaitWatches("pods", 1)
			server.Bookmark()
			r.await("a bookmark", n, func(manifest.Set) bool { return true })
			sets, _ := r.all()
			for _, set := range sets {
				if set.Progress != nil {
					t.Errorf("a set has the progress %+v", set.Progress)
				}
			}
		})
	}
}

// TestUpgradedServer: the version is requested again for another connection.
func TestUpgradedServer(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.SetMinor(34)
	server.Put(newPod("a"))
	r := read(t, server)
	_, n := r.awaitPods(0, "ns/a")
	server.AwaitWatches("pods", 1)
	server.Stop()
	server.SetMinor(35)
	v := server.Put(newPod("b"))
	server.Start()
	r.awaitVersions(n, v, v)
}

func TestComparesVersions(t *testing.T) {
	for _, tc := range []struct {
		major, minor string
		want         bool
	}{
		{"1", "35", true}, {"1", "34", false}, {"1", "35+", true}, {"1", "100", true}, {"2", "0", true}, {"0", "99", false},
		{"", "", false}, {"1", "", false}, {"1", "+", false}, {"1", "-35", false}, {"1", "99999999999999999999", false}, {"one", "35", false},
	} {
		if got := comparesVersions(version.Info{Major: tc.major, Minor: tc.minor}); got != tc.want {
			t.Errorf("%s.%s: %v, want %v", tc.major, tc.minor, got, tc.want)
		}
	}
	for text, want := range map[string]bool{"v1.37.2": true, "v1.34.9": false, "v1.35": false, "v0.0.0-master": false, "": false} {
		if got := comparesVersions(version.Info{GitVersion: text}); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// TestPoint: versions go on within a lineage, and are unknown from one that isn't well formed until the next complete reading.
func TestPoint(t *testing.T) {
	ours, theirs := lineage{cluster: "c"}, lineage{cluster: "c", epoch: 1}
	var p point
	for i, step := range []struct {
		do               func()
		changed, current string
	}{
		{func() { p.event("5", true) }, "", ""},
		{func() { p.replace(ours, "x", true) }, "", ""},
		{func() { p.event("5", true) }, "", ""},
		{func() { p.replace(ours, "9", false) }, "9", "9"},
		{func() { p.event("10", false) }, "9", "10"},
		{func() { p.event("11", true) }, "11", "11"},
		{func() { p.event("8", true) }, "11", "11"},
		{func() { p.event("", false) }, "", ""},
		{func() { p.event("12", true) }, "", ""},
		{func() { p.replace(ours, "10", false) }, "11", "11"},
		{func() { p.replace(theirs, "7", false) }, "7", "7"},
		{func() { p.replace(lineage{}, "8", false) }, "", ""},
		{func() { p.replace(ours, "1"+fmt.Sprintf("%040d", 0), true) }, "", ""},
	} {
		step.do()
		var changed, current string
		if got := p.progress(true); got != nil {
			changed, current = at(t, got.Changed).ResourceVersion, at(t, got.Current).ResourceVersion
		}
		if changed != step.changed || current != step.current {
			t.Errorf("step %d: changed at %q, current at %q; want %q and %q", i, changed, current, step.changed, step.current)
		}
	}
}

// TestForeignEvents: in a watch of several nodes, an event of another node's pod shows that ours are current.
func TestForeignEvents(t *testing.T) {
	s := newSource(t, Config{RESTConfig: apitest.New(t, apitest.Config{}).RESTConfig(apitest.Identity{}), Nodes: []string{"n1", "n2"}})
	p := newPods(s.mine)
	p.begin(snapshot{of: lineage{cluster: "c"}})
	if err := p.Replace(nil, "5"); err != nil {
		t.Fatal(err)
	}
	foreign := onNode(withUID(newPod("a"), "u"), "n3")
	foreign.ResourceVersion = "7"
	for _, event := range []func(any) error{p.Add, p.Delete} {
		if err := event(foreign); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.take().at; got.changed != "5" || got.current != "7" {
		t.Errorf("changed at %s, current at %s; want 5 and 7", got.changed, got.current)
	}
}

// TestFollow: the clusters before are kept, the last ones of them, each once.
func TestFollow(t *testing.T) {
	l := lineage{}
	for i := range 20 {
		l = l.follow(types.UID(fmt.Sprint("c", i)), nil)
	}
	if len(l.replaced) != position.MaxReplaced || l.replaced[0] != "c3" || l.replaced[15] != "c18" {
		t.Errorf("the clusters before are %v", l.replaced)
	}
	if l = l.follow("c5", nil); l.epoch != 0 || len(l.replaced) != 16 || l.replaced[15] != "c19" || l.replaced[1] != "c4" || l.replaced[2] != "c6" {
		t.Errorf("back at an earlier one: %v", l.replaced)
	}
	l = lineage{cluster: "c", epoch: 2}.follow("c", position.Positions{{Cluster: "c", Epoch: 4}, {Cluster: "d", Replaced: []string{"e"}}})
	if l.epoch != 4 || fmt.Sprint(l.replaced) != "[e d]" {
		t.Errorf("with the positions from before the start: %+v", l)
	}
}
