package apiserver

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

// awaitEpoch waits for a set of this epoch with exactly these pods.
func (r *reading) awaitEpoch(after int, epoch uint64, names ...string) (manifest.Set, int) {
	r.t.Helper()
	return r.await("epoch and pods", after, func(s manifest.Set) bool {
		return s.Progress != nil && s.Progress.Changed[0].Epoch == epoch && slices.Equal(originNames(s), names)
	})
}

// TestRestoredStore: a store that was restored from a snapshot begins another epoch, whatever finds it. All pods are those of
// the snapshot then, and the epoch is stored.
func TestRestoredStore(t *testing.T) {
	restore := func(s *apitest.Server, from apitest.Snapshot) { s.Restore(from) }
	behind := func(s *apitest.Server, from apitest.Snapshot) { s.RestoreBehind(from) }
	for name, test := range map[string]struct {
		probe   time.Duration
		restore func(*apitest.Server, apitest.Snapshot)
		find    func(*Source)
	}{
		"a watch that is resumed": {time.Hour, restore, func(*Source) {}},
		"a probe":                 {5 * time.Millisecond, behind, func(*Source) {}},
		"a confirmation":          {time.Hour, behind, func(s *Source) { s.Confirm(nil) }},
		"a list": {time.Hour, func(s *apitest.Server, from apitest.Snapshot) {
			s.Stop()
			s.RestoreBehind(from)
			s.Compact()
			s.WatchList(apitest.WatchListForbidden)
			s.Start()
		}, func(*Source) {}},
	} {
		t.Run(name, func(t *testing.T) {
			server, file := apitest.New(t, apitest.Config{}), filepath.Join(t.TempDir(), "cluster.json")
			server.Put(newPod("a"))
			snapshot := server.Snapshot()
			log := &logtest.Buffer{}
			s := ofCluster(t, server, file, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) })
			s.probeInterval = test.probe
			s.confirmBackoff.Duration = 2 * time.Millisecond
			r := start(t, s)
			_, n := r.awaitPods(0, "ns/a")
			server.AwaitWatches("pods", 1)
			server.Put(newPod("lost"))
			server.Put(newPod("a"))
			_, n = r.awaitPods(n, "ns/a", "ns/lost")
			test.restore(server, snapshot)
			restored := server.Put(newPod("b"))
			test.find(s)
			set, n := r.awaitEpoch(n, 1, "ns/a", "ns/b")
			if got := at(t, set.Progress.Changed); got.ResourceVersion != restored {
				t.Errorf("it has changed at %s; want %s", got.ResourceVersion, restored)
			}
			next := server.Put(newPod("c"))
			set, _ = r.awaitEpoch(n, 1, "ns/a", "ns/b", "ns/c")
			if got := at(t, set.Progress.Changed); got.ResourceVersion != next {
				t.Errorf("it has changed at %s; want %s", got.ResourceVersion, next)
			}
			r.stop()
			if n := strings.Count(log.String(), "has gone back"); n != 1 {
				t.Errorf("%d lines say that the history has gone back:\n%s", n, log.String())
			}
			// After a restart it is the same epoch.
			set, _ = start(t, ofCluster(t, server, file)).awaitPods(0, "ns/a", "ns/b", "ns/c")
			if got := at(t, set.Progress.Changed); got.Epoch != 1 {
				t.Errorf("the epoch is %d after a restart", got.Epoch)
			}
		})
	}
}

// TestRestoredWhileStopped: the positions from before the start show that the history has gone back meanwhile.
func TestRestoredWhileStopped(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Put(newPod("a"))
	before := position.Positions{{Source: Name, Cluster: string(server.Cluster()), Epoch: 3, ResourceVersion: "1000"}}
	s := ofCluster(t, server, "", func(c *Config) { c.Positions = func() position.Positions { return before } })
	set, _ := start(t, s).awaitPods(0, "ns/a")
	if got := at(t, set.Progress.Changed); got.Epoch != 4 || got.ResourceVersion != server.Version() {
		t.Errorf("it has changed at %+v; want epoch 4", got)
	}
}

// TestStaleListChangesNothing: a list that isn't consistent, and older than it had to be, isn't used, and begins no epoch.
func TestStaleListChangesNothing(t *testing.T) {
	p, s := newPods(func(*v1.Pod) bool { return true }), &histories{}
	p.history = s
	of := lineage{cluster: "c"}
	p.begin(snapshot{of: of, consistent: true})
	if err := p.Replace([]any{withUID(newPod("a"), "1")}, "9"); err != nil {
		t.Fatal(err)
	}
	p.begin(snapshot{of: of, before: p.where()})
	if err := p.Replace(nil, "8"); err == nil || s.old != 1 || s.back != 0 || len(p.known) != 1 {
		t.Errorf("a list that is too old: %v, %+v, and %d pods are known", err, s, len(p.known))
	}
	// A confirmation may be later than what a list had to have.
	before := p.where()
	before.current = "20"
	p.begin(snapshot{of: of, before: before})
	if err := p.Replace(nil, "10"); err != nil || s.old != 1 || s.back != 0 {
		t.Errorf("a list that is new enough: %v, %+v", err, s)
	}
	p.begin(snapshot{of: of, before: p.where(), consistent: true})
	if err := p.Replace(nil, "8"); err != nil || s.back != 1 {
		t.Errorf("a consistent list: %v, %+v", err, s)
	}
}

// histories counts what it is notified of.
type histories struct{ old, back int }

func (h *histories) outdated() { h.old++ }

func (h *histories) wentBack(of lineage, _, _ string) lineage {
	h.back++
	of.epoch++
	return of
}

// TestReplacedClusters: the clusters before are part of the position once an operator has confirmed another one, or the
// Service was made again.
func TestReplacedClusters(t *testing.T) {
	server, file := apitest.New(t, apitest.Config{}), filepath.Join(t.TempDir(), "cluster.json")
	first := server.Cluster()
	server.Put(withUID(newPod("a"), "1"))
	known := func(c *Config) { c.Known = func() []types.UID { return []types.UID{"1"} } }
	r := start(t, ofCluster(t, server, file, known))
	set, n := r.awaitPods(0, "ns/a")
	if got := at(t, set.Progress.Current); got.Replaced != nil {
		t.Errorf("the first cluster has replaced %v", got.Replaced)
	}
	awaitReplaced := func(r *reading, after int, want ...string) int {
		t.Helper()
		_, n := r.await("replaced clusters", after, func(s manifest.Set) bool {
			return s.Progress != nil && s.Progress.Changed[0].Cluster == string(server.Cluster()) &&
				strings.Join(s.Progress.Changed[0].Replaced, " ") == strings.Join(want, " ")
		})
		return n
	}
	server.Put(service("made-again"))
	n = awaitReplaced(r, n, string(first))
	server.ReplaceStore()
	second := server.Cluster()
	n = awaitRefused(t, server, r, n, "is of another cluster")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	awaitReplaced(r, n, string(first), "made-again")
	r.stop()
	server.ReplaceStore()
	r = start(t, ofCluster(t, server, file, func(c *Config) { c.ClusterUID = server.Cluster() }))
	awaitReplaced(r, 0, string(first), "made-again", string(second))
	r.stop()
	// Without the file, those from before the start are taken from the positions of the stored pods.
	third := server.Cluster()
	server.ReplaceStore()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	r = start(t, ofCluster(t, server, file, func(c *Config) {
		c.Positions = func() position.Positions {
			return position.Positions{{Source: Name, Cluster: string(third), ResourceVersion: "5", Replaced: []string{string(second)}}}
		}
	}))
	awaitReplaced(r, 0, string(second), string(third))
}

// TestRecordOfAnOldVersion: a file without an epoch is of epoch 0. One with more clusters than are kept is damaged.
func TestRecordOfAnOldVersion(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cluster.json")
	for content, good := range map[string]bool{
		`{"uid":"a","server":"https://s","time":"2026-01-01T00:00:00Z"}`: true,
		`{"uid":"a","replaced":["b"]}`:                                   true,
		`{"uid":"a","replaced":[""]}`:                                    false,
		`{"uid":"a","replaced":["b"` + strings.Repeat(`,"b"`, 16) + `]}`: false,
		`{"uid":"a","epoch":-1}`:                                         false,
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		r := &record{path: file}
		if uid, err := r.read(); (err == nil) != good || good && (uid != "a" || r.epoch != 0) {
			t.Errorf("%s: %q, epoch %d, %v", content, uid, r.epoch, err)
		}
	}
}
