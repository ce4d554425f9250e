package mergesvc_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/disktest"
)

const (
	durableGauge = "podconfigd_store_durable"
	failures     = "podconfigd_store_failures_total"
	cantBeUsed   = "the store can't be used"
	goodAgain    = "the store can be written again"
)

// wantDurable checks the state of a hub's store: in its instance and its metric.
func (d *daemon) wantDurable(when string, want bool) {
	d.t.Helper()
	value := map[bool]float64{true: 1}[want]
	if got := gauge(d.t, durableGauge, d); got != value || d.History().Instance().Temporary == want {
		d.t.Errorf("%s the metric is %v and the instance %+v; want %v, temporary=%v", when, got, d.History().Instance(), value, !want)
	}
}

// TestG6FullDisk: revisions that can't be stored are published under one temporary instance ID, which is logged once
// and counted each time. When the disk has space again, the hub returns to its store and its instance ID.
func TestG6FullDisk(t *testing.T) {
	dir := disktest.Small(t)
	path := filepath.Join(dir, "podconfigd.db")
	d := run(t, path)
	d.set("file", "a: web()")
	own := d.History().Instance().ID
	d.wantDurable("at first", true)

	free := disktest.FillUp(t, dir)
	for _, text := range []string{"a: web(pad=200)", "a: web(pad=200) db()", "a: web(pad=200) db() more()"} {
		d.set("file", text)
	}
	d.wantDurable("on a full disk", false)
	temporary := d.History().Instance().ID
	for number, want := range map[uint64]string{0: own, 1: temporary, 2: temporary, 3: temporary} {
		if rev, _, _ := d.History().Next(number); rev.Instance != want {
			t.Errorf("revision %d is of %s; want %s", rev.Number, rev.Instance, want)
		}
	}
	for range 5 {
		d.clock.TickOnce()
	}
	// One line for the failed write, and one for the failed attempts to use the store again, which have another
	// reason.
	if got := d.log.Count(cantBeUsed); got < 1 || got > 2 {
		t.Errorf("the log reports %d times that the store can't be used; want once for each reason:\n%s", got, d.log)
	}
	if got := gauge(t, failures, d.counts); got < 6 {
		t.Errorf("%v failures are counted; want each attempt", got)
	}
	if !strings.Contains(d.log.String(), "no space left on device") || !strings.Contains(d.log.String(), temporary) {
		t.Errorf("the log has neither the reason nor the instance:\n%s", d.log)
	}

	free()
	d.clock.TickOnce()
	d.wantDurable("once there is room", true)
	if got := d.History().Instance().ID; got != own || d.log.Count(goodAgain) != 1 {
		t.Errorf("once there is room the instance is %s, and the log tells it %d times; want %s, once", got, d.log.Count(goodAgain), own)
	}
	after := run(t, killed(t, path))
	if got := after.History().State(); got.Number != 4 || got.Instance.ID != own || after.pods() != "db more web" {
		t.Errorf("killed then, it goes on at revision %d of %s with %q; want 4 of %s with all pods", got.Number, got.Instance.ID, after.pods(), own)
	}
	d.set("file", "a: web()")
	if got := run(t, killed(t, path)).pods(); got != "web" {
		t.Errorf("the pods published later are stored as %q; want web", got)
	}

	// The next failure is logged again, and the temporary instance is the same: its revisions continued.
	free = disktest.FillUp(t, dir)
	d.set("file", "a: web(pad=400)")
	if got := d.History().Instance().ID; got != temporary {
		t.Errorf("the second time the instance is %s; want %s", got, temporary)
	}
	free()
}

// TestG6FullDiskAtStart: if no store can be created, the hub serves from memory, and creates one as soon as it
// can, with its present state.
func TestG6FullDiskAtStart(t *testing.T) {
	dir := disktest.Small(t)
	free := disktest.FillUp(t, dir)
	path := filepath.Join(dir, "podconfigd.db")
	d := run(t, path)
	d.wantDurable("at the start", false)
	d.set("file", "a: web()")
	d.clock.TickOnce()
	d.wantDurable("later", false)
	temporary := d.History().Instance().ID
	free()
	d.clock.TickOnce()
	d.wantDurable("once there is room", true)
	if d.History().Instance().ID == temporary {
		t.Error("the store has the temporary instance's id; want one of its own")
	}
	if !d.History().Knows(temporary) {
		t.Error("the hub doesn't know its temporary instance any more; want its cursors good as long as it runs")
	}
	after := run(t, killed(t, path))
	if after.History().Number() != 1 || after.pods() != "web" || after.History().Instance() != d.History().Instance() {
		t.Errorf("restarted it is at revision %d of %+v with %q; want 1 of %+v with web", after.History().Number(), after.History().Instance(),
			after.pods(), d.History().Instance())
	}
	if after.History().Knows(temporary) {
		t.Error("after a restart the temporary instance is known; want it gone")
	}
}

// TestG6ReadOnly: a store that can't be written is read: its pods are served as stale, under a temporary
// instance ID. Once it can be written, the hub uses it.
func TestG6ReadOnly(t *testing.T) {
	dir := disktest.Small(t)
	path := filepath.Join(dir, "podconfigd.db")
	before := run(t, path)
	before.set("file", "a: web()\nb: [held]")
	before.set("file", "a: web()")
	own := before.History().Instance()
	before.stop()
	remount := func(flags uintptr) {
		t.Helper()
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	remount(unix.MS_RDONLY)
	d := run(t, path)
	d.wantDurable("on a read-only disk", false)
	st := d.History().State()
	if st.Number != 2 || len(st.Pods) != 1 || !st.Pods[0].Stale {
		t.Errorf("it begins at revision %d with %v; want 2, with web as stale", st.Number, st.Pods)
	}
	d.set("api", "x: api()")
	remount(0)
	d.clock.TickOnce()
	d.wantDurable("once it can be written", true)
	if got := d.History().Instance(); got != own {
		t.Errorf("once it can be written the instance is %+v; want %+v, as before", got, own)
	}
	after := run(t, killed(t, path))
	if after.History().Number() != 3 || after.pods() != "api web" || after.History().Instance() != d.History().Instance() {
		t.Errorf("restarted it is at revision %d of %+v with %q; want 3 of %+v, with both pods", after.History().Number(),
			after.History().Instance(), after.pods(), d.History().Instance())
	}
	// The store has recorded that all pods of file were known, so the broken file doesn't keep file from being
	// ready.
	after.set("file", "a: [held]")
	if s := after.Sources()[0]; !s.Ready || s.Pods != 1 {
		t.Errorf("file is ready=%v with %d pods; want it ready, with the one that the store knows", s.Ready, s.Pods)
	}
}

// TestG6Removed: a store whose file is removed or replaced under a running hub is detected, with or without a change,
// and written again as a whole. A kill after that loses nothing.
func TestG6Removed(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, path string){
		"removed": func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
		"replaced": func(t *testing.T, path string) {
			other := newStore(t)
			run(t, other).stop()
			if err := os.Rename(other, path); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, changes := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", with a change ", changes), func(t *testing.T) {
				path := newStore(t)
				d := run(t, path)
				d.set("file", "a: web()")
				own := d.History().Instance().ID
				want := "web"
				harm(t, path)
				if changes {
					d.set("file", "a: web() db()")
					want = "db web"
					d.wantDurable("after a change", false)
					if rev, _, _ := d.History().Next(1); rev.Instance == own {
						t.Error("the change that isn't stored is published under the instance of the store")
					}
				}
				d.clock.TickOnce()
				d.wantDurable("after the next check", true)
				if got := d.History().Instance().ID; got == own {
					t.Error("the new store has the instance of the one that is gone")
				}
				if !strings.Contains(d.log.String(), "removed or replaced") {
					t.Errorf("the log doesn't report it:\n%s", d.log)
				}
				after := run(t, killed(t, path))
				if got := after.pods(); got != want || after.History().Instance() != d.History().Instance() {
					t.Errorf("killed then, it goes on with %q in the instance %+v; want %q in %+v", got, after.History().Instance(), want, d.History().Instance())
				}
			})
		}
	}
}

// TestG6Damaged: a store that is damaged when podconfigd starts is set aside with an error in the log, and the
// daemon starts with an empty one.
func TestG6Damaged(t *testing.T) {
	path := newStore(t)
	before := run(t, path)
	before.set("file", "a: web()")
	own := before.History().Instance().ID
	before.stop()
	if err := os.Truncate(path, 5000); err != nil {
		t.Fatal(err)
	}
	d := run(t, path)
	d.wantDurable("with a damaged store", true)
	if d.History().Instance().ID == own || d.History().Number() != 0 || d.pods() != "" {
		t.Errorf("it goes on at revision %d of %s with %q; want a new instance without pods", d.History().Number(), d.History().Instance().ID, d.pods())
	}
	if got := d.log.Count("level=ERROR"); got != 1 {
		t.Errorf("the log has %d errors; want one:\n%s", got, d.log)
	}
	if aside, err := filepath.Glob(path + ".damaged-*"); err != nil || len(aside) != 1 {
		t.Errorf("set aside are %v, %v; want the damaged store", aside, err)
	}
	d.set("file", "a: web()")
	if got := run(t, killed(t, path)).pods(); got != "web" {
		t.Errorf("the new store has %q; want web", got)
	}
}

// TestG6TwoHubs: of two hubs with one store, the second serves from memory and doesn't affect the first. When
// the first has ended, the second gets the store, under a new ID: its revisions are not the first one's.
func TestG6TwoHubs(t *testing.T) {
	path := newStore(t)
	first := run(t, path)
	first.set("file", "a: web()")
	second := run(t, path)
	second.wantDurable("while another one has the store", false)
	second.set("file", "a: other()")
	second.clock.TickOnce()
	first.set("file", "a: web() more()")
	first.wantDurable("while another one wants the store", true)
	own := first.History().Instance().ID
	if got := run(t, killed(t, path)).pods(); got != "more web" {
		t.Errorf("the store has %q; want the first hub's pods", got)
	}
	first.stop()
	second.clock.TickOnce()
	second.wantDurable("when the other one has gone", true)
	if got := second.History().Instance().ID; got == own {
		t.Errorf("the second hub goes on under %s, the first one's id; want another", got)
	}
	if got := run(t, killed(t, path)).pods(); got != "other" {
		t.Errorf("the store has %q; want the second hub's pod", got)
	}
}

// TestG6Stopped: revisions published after the end of Run are temporary. The store has all earlier ones, and another
// process may open it.
func TestG6Stopped(t *testing.T) {
	path := newStore(t)
	d := run(t, path)
	d.set("file", "a: web()")
	own := d.History().Instance().ID
	d.stop()
	d.set("file", "a: late()")
	if rev, _, _ := d.History().Next(1); rev.Instance == own {
		t.Error("a revision that wasn't stored is of the store's instance; want a temporary one")
	}
	next := run(t, path)
	if next.History().Instance().ID != own || next.pods() != "web" || next.History().Number() != 1 {
		t.Errorf("the next one begins at revision %d of %s with %q; want 1 of %s, with web", next.History().Number(),
			next.History().Instance().ID, next.pods(), own)
	}
}
