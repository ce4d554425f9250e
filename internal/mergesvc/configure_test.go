package mergesvc_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/disktest"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// configure replaces the sources. "NAME@LOCATION" has a location.
func (d *daemon) configure(names ...string) {
	var sources []merge.Source
	for _, n := range names {
		name, location, _ := strings.Cut(n, "@")
		sources = append(sources, merge.Source{Name: name, Location: location})
	}
	d.Configure(sources)
}

// sources returns the configured sources, ready ones with "!".
func (d *daemon) sources() string {
	var out []string
	for _, s := range d.Sources() {
		out = append(out, s.Name+map[bool]string{true: "!"}[s.Ready])
	}
	return strings.Join(out, " ")
}

// TestConfigure: sources are added and removed in a running hub. Each change is one revision, which is stored.
func TestConfigure(t *testing.T) {
	path := newStore(t)
	d := run(t, path)
	d.set("file", "a: web() db()")
	d.set("api", "x: web(uid=u1)")
	d.configure("api", "http@http://x/")
	d.set("file", "a: web()")
	if got, want := d.pods()+" of "+d.sources(), "u1 of api! http"; got != want || d.History().Number() != 3 {
		t.Errorf("without file there are %s at revision %d; want %s at 3", got, d.History().Number(), want)
	}
	rev, _, _ := d.History().Next(2)
	if !slices.Equal(rev.Sources, []string{"api", "http"}) || !rev.Observed.Equal(d.clock.FakeClock.Now()) {
		t.Errorf("revision 3 names the sources %v, observed at %v; want api and http, at the time of the clock", rev.Sources, rev.Observed)
	}
	d.configure("api", "http@http://elsewhere/")
	if d.History().Number() != 3 || d.Sources()[1].Location != "http://elsewhere/" {
		t.Errorf("with another location it is at revision %d, and the location is %s; want 3 and the new one", d.History().Number(), d.Sources()[1].Location)
	}
	after := run(t, killed(t, path))
	if after.History().Number() != 3 || after.pods() != "u1" {
		t.Errorf("restarted it is at revision %d with %q; want 3 with u1", after.History().Number(), after.pods())
	}
}

// TestConfigureDropsReadiness: a source that was ready, removed and configured again isn't ready, before or
// after a restart: an origin that was never good keeps it unready. A source that stayed is ready.
func TestConfigureDropsReadiness(t *testing.T) {
	for _, tc := range []struct {
		name      string
		configure [][]string
		want      string
	}{
		{"nothing changes", nil, "file! api!"},
		{"others come and go", [][]string{{"http", "file", "api"}, {"file", "api"}}, "file! api!"},
		{"the order changes", [][]string{{"api", "file"}}, "file! api!"},
		{"it is removed", [][]string{{"file"}}, "file! api"},
		{"it is removed and comes back", [][]string{{"file"}, {"file", "api"}}, "file! api"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := newStore(t)
			d := run(t, path)
			d.set("file", "")
			d.set("api", "")
			for _, names := range tc.configure {
				d.configure(names...)
			}
			after := run(t, killed(t, path))
			after.set("file", "a: [held]")
			after.set("api", "x: [held]")
			if got := after.sources(); got != tc.want {
				t.Errorf("after a restart the sources are %s; want %s", got, tc.want)
			}
		})
	}
}

// TestConfigureWithoutStore: sources that are configured while the store can't be written are stored
// afterwards, with their readiness.
func TestConfigureWithoutStore(t *testing.T) {
	dir := disktest.Small(t)
	path := filepath.Join(dir, "podconfigd.db")
	d := run(t, path)
	d.set("file", "a: web()")
	d.set("api", "x: job()")
	free := disktest.FillUp(t, dir)
	d.set("file", "a: web(pad=200)")
	d.configure("file")
	d.configure("file", "api")
	free()
	d.clock.TickOnce()
	d.wantDurable("once there is room", true)
	after := run(t, killed(t, path))
	if after.pods() != "web" {
		t.Errorf("the store has the pods %q; want web", after.pods())
	}
	after.set("api", "y: [held]")
	if got := after.sources(); got != "file api" {
		t.Errorf("the sources are %s; want api not ready, as it was configured again", got)
	}
}

// TestMarksWithoutStore: a removed source's earlier readiness is kept while the store can't be written, if its
// pods still wait or were taken over meanwhile, but not if they were removed.
func TestMarksWithoutStore(t *testing.T) {
	for _, tc := range []struct {
		name  string
		did   func(*daemon)
		ready string
	}{
		{"it waits", func(d *daemon) { d.set("file", "a: web(pad=200)") }, "file api http!"},
		{"it is taken over", func(d *daemon) { d.configure("file", "api", "http") }, "file api http!"},
		{"it is taken over and removed", func(d *daemon) {
			d.configure("file", "api", "http")
			d.configure("file", "api")
		}, "file api http"},
		{"it is given up", func(d *daemon) {
			d.set("file", "a: web(pad=200)")
			d.set("api", "")
		}, "file api http"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := disktest.Small(t)
			path := filepath.Join(dir, "podconfigd.db")
			before := run(t, path)
			before.set("file", "a: web()")
			before.configure("file", "api", "http")
			before.set("http", "x: job()")
			before.stop()
			d := run(t, path)
			free := disktest.FillUp(t, dir)
			// This revision can't be stored.
			d.set("file", "a: web() big(pad=200)")
			d.wantDurable("on a full disk", false)
			tc.did(d)
			free()
			d.clock.TickOnce()
			d.wantDurable("once there is room", true)
			after := run(t, killed(t, path))
			after.configure("file", "api", "http")
			after.set("http", "y: [held]")
			if got := after.sources(); got != tc.ready {
				t.Errorf("after a restart, with an origin of http that can't be used, the sources are %s; want %s", got, tc.ready)
			}
		})
	}
}

// TestConfigureLog: one line for each source that is added or removed, and none for one that stays.
func TestConfigureLog(t *testing.T) {
	d := run(t, newStore(t))
	d.set("file", "a: web() db()")
	d.set("api", "x: web(uid=u1)")
	d.configure("http@http://x/", "api")
	d.configure("api", "http@http://x/")
	var got []string
	for _, line := range strings.Split(d.log.String(), "\n") {
		if strings.Contains(line, `msg="source`) && !strings.Contains(line, "is ready") {
			got = append(got, regexp.MustCompile(`time=\S+ `).ReplaceAllString(line, ""))
		}
	}
	want := []string{
		`level=INFO msg="source removed" source=file location="" pods=2`,
		`level=INFO msg="source added" source=http location=http://x/ pods=0`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if d.log.Count(`msg="no pod waits`) != 1 {
		t.Errorf("the log doesn't report that no pod waits now:\n%s", d.log)
	}
}

// TestConfigureWhileSourcesSpeak: concurrent sets are merged or ignored, and no revision is lost: a consumer of
// all revisions has the final pods. Once each source was read again, the state is the same as without the
// changes.
func TestConfigureWhileSourcesSpeak(t *testing.T) {
	both := []merge.Source{{Name: "file"}, {Name: "api"}}
	h := mergesvc.NewHub(mergesvc.Config{Sources: both})
	var writers sync.WaitGroup
	for _, source := range []string{"file", "api"} {
		writers.Go(func() {
			for i := range 100 {
				h.Apply(mergetest.Set(source, int64(i), fmt.Sprintf("x: web(uid=%s,image=%d)\ny: %s(image=%d)", source, i, source, i)))
			}
		})
	}
	for range 50 {
		h.Configure([]merge.Source{{Name: "api"}})
		h.Configure(both)
	}
	writers.Wait()
	fresh := merge.New(both, merge.Stored{})
	want := mergetest.At(&history.State{})
	for _, source := range []string{"api", "file"} {
		last := mergetest.Set(source, 1000, fmt.Sprintf("x: web(uid=%s)\nz: last-%s()", source, source))
		h.Apply(last)
		if err := want.Apply(fresh.Apply(last).Changes); err != nil {
			t.Fatal(err)
		}
	}

	consumer := mergetest.At(&history.State{})
	for number := range h.History().Number() {
		rev, kept, _ := h.History().Next(number)
		if !kept || rev.Number != number+1 {
			t.Fatalf("after revision %d comes %v; want the next one", number, rev)
		}
		if err := consumer.Apply(rev.Changes); err != nil {
			t.Fatalf("who applied all revisions can't apply %d: %v", rev.Number, err)
		}
	}
	if diff := cmp.Diff(contents(want.Pods), contents(consumer.Pods)); diff != "" {
		t.Errorf("pods of who applied all revisions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(contents(want.Pods), contents(mergetest.At(h.History().State()).Pods)); diff != "" {
		t.Errorf("pods of the state (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(outlines(fresh.Sources()), outlines(h.Sources())); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
}

// contents returns the pods by UID, each with its source and digests.
func contents(pods map[types.UID]*revision.Pod) map[types.UID]string {
	out := map[types.UID]string{}
	for uid, p := range pods {
		out[uid] = fmt.Sprint(p, " of ", p.Source, " in ", p.Origin, " ", p.SpecDigest, " ", p.StatusDigest)
	}
	return out
}

// outlines returns the sources without the fields that depend on the number of changes.
func outlines(sources []merge.SourceState) []string {
	var out []string
	for _, s := range sources {
		out = append(out, fmt.Sprintf("%s ready=%v pods=%d findings=%v", s.Name, s.Ready, s.Pods, s.Findings))
	}
	return out
}

// TestPreviewBesideConfigure: a preview that runs while sources change their locations and order reads no
// changing data, which the race detector checks.
func TestPreviewBesideConfigure(t *testing.T) {
	h := mergesvc.NewHub(mergesvc.Config{Sources: []merge.Source{{Name: "file"}, {Name: "api"}}})
	h.Apply(mergetest.Set("api", 1, "x: web(uid=u1)"))
	h.Apply(mergetest.Set("file", 1, "a: web() db()"))
	origin := mergetest.Set("api", 2, "x: web(uid=u1) job()").Origins[0]
	var previews sync.WaitGroup
	previews.Go(func() {
		for range 100 {
			preview, err := h.Preview("api", []*manifest.Origin{origin}, nil)
			if err != nil || len(preview.Changes) == 0 || len(preview.Changes[0].Pods) == 0 {
				t.Errorf("the preview is %v, %v; want an ADD at least", preview.Changes, err)
				return
			}
		}
	})
	for i := range 100 {
		at := fmt.Sprint("/", i)
		h.Configure([]merge.Source{{Name: "file", Location: at}, {Name: "api", Location: at}})
		h.Configure([]merge.Source{{Name: "file", Location: at + "/elsewhere"}, {Name: "api", Location: at + "/elsewhere"}})
		h.Configure([]merge.Source{{Name: "api", Location: at}, {Name: "file", Location: at}})
	}
	previews.Wait()
}
