package client_test

import (
	"slices"
	"testing"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/mergesvc/merge"
)

// configure sets the daemon's sources.
func (d *daemon) configure(names ...string) { d.hub.Configure(sourcesOf(names)) }

// wantSources waits for an event without ops that has exactly these sources, ready ones with "!".
func (w *consumer) wantSources(want ...string) {
	w.t.Helper()
	e := w.want()
	got := []string{}
	for _, s := range e.Sources {
		got = append(got, s.Name+map[bool]string{true: "!"}[s.Ready])
	}
	if e.Sources == nil || !slices.Equal(got, want) {
		w.t.Errorf("the event tells of the sources %v (nil: %v); want %v", got, e.Sources == nil, want)
	}
}

// TestSourcesChange: podconfigd's sources are added, removed and reordered while the consumer watches. It receives
// each change, after the removals, with all remaining sources; a new source isn't ready.
func TestSourcesChange(t *testing.T) {
	d, p := newDaemon(), testPlace(t)
	up(t, p, d)
	d.set("file", "a: web()")
	d.set("api", "x: web(uid=u1) job()")
	w := watch(t, p, client.Config{}, client.WatchOptions{})
	w.want("ADD file: web", "ADD api: job")
	w.want("synced")
	d.configure("api", "http")
	w.want("REMOVE file: web", "ADD api: u1")
	w.wantSources("api!", "http")
	d.configure("http", "api")
	w.wantSources("http", "api!")
	d.set("http", "")
	w.want("ADD http:")
	d.configure("http", "file", "api")
	w.wantSources("http!", "file", "api!")
	d.set("file", "")
	w.want("ADD file:")
	d.configure()
	w.want("REMOVE api: u1 job")
	w.wantSources()
}

// TestLeftoversWaitForANewSource: held pods of a source that isn't configured any more are removed once all sources
// are ready, including new ones; podconfigd's own pods stay.
func TestLeftoversWaitForANewSource(t *testing.T) {
	d, p := newDaemon(), testPlace(t)
	up(t, p, d)
	d.set("file", "a: web()")
	old := client.Pod{UID: "old", Source: "gone", Namespace: "default", Name: "old", SpecDigest: "s"}
	w := watch(t, p, client.Config{}, client.WatchOptions{Known: []client.Pod{old}})
	w.want("ADD file: web")
	w.want("synced")
	d.configure("file", "http", "api")
	w.wantSources("file!", "http", "api")
	d.set("api", "")
	w.want("ADD api:")
	// http never becomes ready, and is then removed from the configuration.
	d.configure("file", "api")
	w.want("REMOVE gone: old")
	w.wantSources("file!", "api!")
	d.hub.Configure([]merge.Source{{Name: "file"}, {Name: "api"}, {Name: "gone"}})
	w.wantSources("file!", "api!", "gone")
	d.set("file", "a: web(image=2)")
	w.want("UPDATE file: web")
}
