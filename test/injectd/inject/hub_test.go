package inject_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/test/injectd/inject"
)

// ops returns all ops that the hub has published, as "REVISION OP SOURCE: POD…".
func ops(t *testing.T, h *mergesvc.Hub) []string {
	t.Helper()
	var out []string
	for number := range h.History().Number() {
		rev, kept, _ := h.History().Next(number)
		if !kept {
			t.Fatalf("the history no longer has revision %d", number+1)
		}
		for _, c := range rev.Changes {
			text := fmt.Sprintf("%d %s %s:", rev.Number, c.Op, c.Source)
			for _, p := range c.Pods {
				text += " " + p.Object.Name
			}
			out = append(out, text)
		}
	}
	return out
}

// TestApply: the answer to a set has the revision that the set produced, and equal sets produce none.
func TestApply(t *testing.T) {
	path, h := startHub(t, "file:a", "api")
	c := dial(t, path)
	running := set("api", "web", "db")
	running.Origins[0].Pods[0].Status.Phase = v1.PodRunning
	for i, step := range []struct {
		set  inject.Set
		want uint64
	}{
		{inject.Set{Source: "api", Error: "no API server"}, 0},
		{set("api", "web", "db"), 1},
		{set("api", "web", "db"), 1},
		{running, 2},
		{inject.Set{Source: "api", Error: "no API server"}, 2},
		{set("file:a"), 3},
		{set("api", "db"), 4},
	} {
		want := inject.Published{Instance: h.History().State().Instance.ID, Revision: step.want}
		if got := apply(t, c, step.set); got != want {
			t.Errorf("step %d: %+v is published; want %+v", i, got, want)
		}
	}
	want := []string{"1 ADD api: web db", "2 RECONCILE api: web", "3 ADD file:a:", "4 REMOVE api: web"}
	if diff := cmp.Diff(want, ops(t, h)); diff != "" {
		t.Errorf("ops (-want +got):\n%s", diff)
	}
}

// TestConfigure: the answer has the revision that a change of the sources produced; the same sources again
// produce none. Sets of a source that isn't configured are accepted, and change nothing.
func TestConfigure(t *testing.T) {
	path, h := startHub(t, "file:a", "api")
	c := dial(t, path)
	configure := func(want uint64, sources ...string) {
		t.Helper()
		if p, err := c.Configure(sources); err != nil || p.Revision != want {
			t.Errorf("Configure(%v) returns revision %d, %v; want %d", sources, p.Revision, err, want)
		}
	}
	apply(t, c, set("file:a", "web"))
	configure(1, "file:a", "api")
	configure(2, "api")
	if got := apply(t, c, set("file:a", "web")); got.Revision != 2 {
		t.Errorf("a set of a removed source produces revision %d; want none after 2", got.Revision)
	}
	configure(3, "api", "file:a")
	apply(t, c, set("file:a", "web"))
	configure(5)
	want := []string{"1 ADD file:a: web", "2 REMOVE file:a: web", "4 ADD file:a: web", "5 REMOVE file:a: web"}
	if diff := cmp.Diff(want, ops(t, h)); diff != "" {
		t.Errorf("ops (-want +got):\n%s", diff)
	}
	if got := h.Sources(); len(got) != 0 {
		t.Errorf("the sources are %v; want none", got)
	}
}

// TestHeldOrigin: a held origin keeps its old pods, its new pods are added, and ListSources shows a reason.
func TestHeldOrigin(t *testing.T) {
	path, h := startHub(t, "api")
	c := dial(t, path)
	first := inject.Set{Source: "api", Origins: []inject.Origin{{Name: "o", Pods: []*v1.Pod{pod("web", "v1"), pod("db", "v1")}}}}
	apply(t, c, first)
	apply(t, c, inject.Set{Source: "api", Origins: []inject.Origin{{Name: "o", Held: true, Pods: []*v1.Pod{pod("db", "v2")}}}})
	want := []string{"1 ADD api: web db", "2 UPDATE api: db"}
	if diff := cmp.Diff(want, ops(t, h)); diff != "" {
		t.Errorf("ops (-want +got):\n%s", diff)
	}
	findings := h.Sources()[0].Findings
	if len(findings) != 1 || findings[0].Severity != manifest.Error || len(findings[0].Kept) != 1 || findings[0].Kept[0].Name != "web" {
		t.Errorf("findings %+v; want one error, which keeps web", findings)
	}
}

// TestDigests: a pod's digests are the same as with every other source.
func TestDigests(t *testing.T) {
	path, h := startHub(t, "api")
	apply(t, dial(t, path), set("api", "web"))
	got := h.History().State().Pods[0]
	spec, err := manifest.SpecDigest(pod("web", "pause"))
	if err != nil {
		t.Fatal(err)
	}
	status, err := manifest.StatusDigest(pod("web", "pause"))
	if err != nil {
		t.Fatal(err)
	}
	if got.SpecDigest != spec || got.StatusDigest != status {
		t.Errorf("digests %s and %s; want %s and %s", got.SpecDigest, got.StatusDigest, spec, status)
	}
}

// TestOriginsKeepTheirPointers: an origin is the same pointer if and only if it is byte for byte the same as in
// the source's last set, also in a set from another client, and after the source couldn't be read.
func TestOriginsKeepTheirPointers(t *testing.T) {
	var sets []manifest.Set // of one source: applied one after another
	path := startSource(t, nowhere(func(s manifest.Set) { sets = append(sets, s) }), "api")
	c, other := dial(t, path), dial(t, path)
	changed := set("api", "web", "db")
	changed.Origins[1].Held = true
	apply(t, c, set("api", "web", "db"))
	apply(t, other, set("api", "db", "web"))
	apply(t, c, inject.Set{Source: "api", Error: "gone"})
	apply(t, c, changed)
	if len(sets) != 4 {
		t.Fatalf("%d sets were applied; want 4", len(sets))
	}
	web, db := sets[0].Origins[0], sets[0].Origins[1]
	if sets[1].Origins[1] != web || sets[1].Origins[0] != db {
		t.Error("the same origins in another order, from another client, are other pointers")
	}
	if err := sets[2].Err; err == nil || err.Error() != "gone" || len(sets[2].Origins) > 0 {
		t.Errorf("the set with an error is %+v; want that error and no origins", sets[2])
	}
	if sets[3].Origins[0] != web {
		t.Error("an origin that stayed the same while its source couldn't be read is another pointer")
	}
	if sets[3].Origins[1] == db || !sets[3].Origins[1].Held {
		t.Errorf("an origin that changed is %+v; want a new one, held", sets[3].Origins[1])
	}
	for i, s := range sets {
		if s.ReadTime.IsZero() {
			t.Errorf("set %d has no ReadTime", i)
		}
	}
}

// TestConnectionsAtOnce: with several clients for each source, every set is applied whole, and every answer is
// for the client's own set.
func TestConnectionsAtOnce(t *testing.T) {
	names := []string{"file:a", "api"}
	path, h := startHub(t, names...)
	const clients, sets = 4, 25
	var all sync.WaitGroup
	for i := range clients {
		source := names[i%len(names)]
		c := dial(t, path)
		all.Go(func() {
			last := uint64(0)
			for n := range sets {
				// No two sets are the same, so each produces a separate revision.
				p, err := c.Apply(set(source, fmt.Sprintf("%s-%d-%d", source[:3], i, n)))
				if err != nil || p.Revision <= last {
					t.Errorf("client %d, set %d: %+v, %v; want a revision after %d", i, n, p, err, last)
					return
				}
				last = p.Revision
			}
		})
	}
	all.Wait()
	if got := h.History().Number(); got != clients*sets {
		t.Errorf("the last revision is %d; want %d, one for each set", got, clients*sets)
	}
	if got := len(h.History().State().Pods); got != len(names) {
		t.Errorf("%d pods are left; want one from the last set of each source", got)
	}
}
