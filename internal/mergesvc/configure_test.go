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

	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/disktest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
)

// configure makes these the sources; "NAME@LOCATION" has a location.
func (d *daemon) configure(names ...string) {
	var sources []merge.Source
	for _, n := range names {
		name, location, _ := strings.Cut(n, "@")
		sources = append(sources, merge.Source{Name: name, Location: location})
	}
	d.Configure(sources)
}

// sources are the configured ones, those that are ready with "!".
func (d *daemon) sources() string {
	var out []string
	for _, s := range d.Sources() {
		out = append(out, s.Name+map[bool]string{true: "!"}[s.Ready])
	}
	return strings.Join(out, " ")
}

// TestConfigure: sources come and go in a hub that runs; each time there is one revision, which is stored.
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

// TestConfigureForgetsReadiness: that a source was ready before it was removed isn't believed when it is back, in this life or the
// next: an origin that was never good keeps it from being ready. Of a source that stayed it is.
func TestConfigureForgetsReadiness(t *testing.T) {
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

// TestConfigureWithoutStore: what is configured while the store can't be written is in it when it can, with the readiness of then.
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
	d.clock.tick()
	d.wantDurable("once there is room", true)
	after := run(t, killed(t, path))
	if after.pods() != "web" {
		t.Errorf("the store has the pods %q; want web", after.pods())
	}
	after.set("api", "y: [held]")
	if got := after.sources(); got != "file api" {
		t.Errorf("the sources are %s; want api not to be believed ready, as it was configured anew", got)
	}
}

// TestConfigureLog: one line for each source that came or went, none for one that stayed.
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
	if d.log.count(`msg="no pod waits`) != 1 {
		t.Errorf("the log doesn't tell that no pod waits any more:\n%s", d.log)
	}
}

// TestConfigureWhileSourcesSpeak: sets that come at the same time are merged or ignored, and no revision is lost.
func TestConfigureWhileSourcesSpeak(t *testing.T) {
	h := mergesvc.NewHub(mergesvc.Config{Sources: []merge.Source{{Name: "file"}, {Name: "api"}}})
	var writers sync.WaitGroup
	for _, source := range []string{"file", "api"} {
		writers.Go(func() {
			for i := range 100 {
				h.Apply(mergetest.Set(source, int64(i), fmt.Sprintf("x: web(uid=%s,image=%d)", source, i)))
			}
		})
	}
	for range 50 {
		h.Configure([]merge.Source{{Name: "api"}})
		h.Configure([]merge.Source{{Name: "file"}, {Name: "api"}})
	}
	writers.Wait()
	if h.History().Number() < 100 {
		t.Errorf("there are %d revisions; want those of 100 configurations at least", h.History().Number())
	}
	for number := range h.History().Number() {
		if rev, kept, _ := h.History().Next(number); !kept || rev.Number != number+1 {
			t.Fatalf("after revision %d comes %v; want the next one", number, rev)
		}
	}
}
