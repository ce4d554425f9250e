package upstream_test

import (
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/podctl/web/board"
	"github.com/podstream/podstream/internal/podctl/web/upstream"
	"github.com/podstream/podstream/internal/podctl/web/webtest"
)

// TestHistory: the timeline begins with the revisions that podconfigd keeps, as they were published, and goes on with new ones.
func TestHistory(t *testing.T) {
	p := webtest.NewPodconfigd(t, 0, "file")
	p.Set("file", "a: one(image=a)")
	p.Set("file", "a: one(image=b)")
	p.Set("file", "a: one(image=b) two(image=a)")
	p.Set("file", "a: two(image=a)")
	f := start(t, upstream.Config{Podconfigd: p.Daemon()})
	past := []string{"1 ADD file: one", "2 UPDATE file: one", "3 ADD file: two", "4 REMOVE file: one"}
	f.wantEntries(past...)
	p.Set("file", "a: two(image=c)")
	f.wantEntries(append(past, "5 UPDATE file: two")...)

	begin, _ := f.board.Timeline.Begin.Get()
	if begin.GetSequence() != 1 || begin.GetRevision() != 1 || begin.GetReason() != "podconfigd keeps no earlier revisions" {
		t.Errorf("it begins with %v; want revision 1, and that podconfigd keeps no earlier ones", begin)
	}
	for sequence, want := range map[uint64]string{1: "one", 2: "one", 3: "one two", 4: "two", 5: "two"} {
		if got := names(f.board, sequence); got != want {
			t.Errorf("after entry %d the desired pods are %q; want %q", sequence, got, want)
		}
	}
	if _, ok := f.board.Timeline.DesiredAt(6); ok {
		t.Error("the pods after an entry that doesn't exist are known")
	}
	var change string
	f.board.Timeline.Log.Each(func(number uint64, e *board.Entry) bool {
		if number == 2 {
			change = e.Revision.GetOps()[0].GetPods()[0].GetChange()
		}
		return true
	})
	if change != "@@ -1 +1 @@\n-image: a\n+image: b\n" {
		t.Errorf("the change of revision 2 is %q", change)
	}
}

// names are the desired pods after an entry.
func names(b *board.Board, sequence uint64) string {
	pods, ok := b.Timeline.DesiredAt(sequence)
	if !ok {
		return "(not kept)"
	}
	var out []string
	for _, p := range pods {
		out = append(out, p.GetName().GetName())
	}
	return strings.Join(out, " ")
}

// TestHistoryBegins: a history that has lost its first revisions is found to begin later, whatever its length, and the pods from
// before are known.
func TestHistoryBegins(t *testing.T) {
	for _, kept := range []int{1, 2, 3, 7} {
		p := webtest.NewPodconfigd(t, kept, "file")
		var want []string
		const last = 12
		for i := range last {
			p.Set("file", "a: old(image=x) one(image="+strings.Repeat("i", i+1)+")")
			if revision := i + 1; revision > last-kept {
				want = append(want, entryOf(revision))
			}
		}
		f := start(t, upstream.Config{Podconfigd: p.Daemon()})
		f.wantEntries(want...)
		begin, _ := f.board.Timeline.Begin.Get()
		if begin.GetRevision() != uint64(last-kept+1) { //nolint:gosec // It isn't negative.
			t.Errorf("with %d kept it begins with revision %d", kept, begin.GetRevision())
		}
		// Those from before, too.
		webtest.Await(t, "the pods after the first entry", nil, func() bool { return names(f.board, 1) == "old one" })
		f.stop()
	}
}

func entryOf(revision int) string {
	return strings.ReplaceAll("N UPDATE file: one", "N", itoa(revision))
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

// TestNoHistory: a podconfigd that keeps nothing, or has no pods, still has a begin.
func TestNoHistory(t *testing.T) {
	p := webtest.NewPodconfigd(t, 0, "file")
	f := start(t, upstream.Config{Podconfigd: p.Daemon()})
	wantLink(t, f.board.Desired, "LIVE")
	f.wantEntries()
	p.Set("file", "a: one(image=a)")
	f.wantEntries("1 ADD file: one")
}

// TestPodconfigdGoesAway: while podconfigd is away the link says so and the pods stay; when it comes back, the timeline goes on
// without a gap.
func TestPodconfigdGoesAway(t *testing.T) {
	p := webtest.NewPodconfigd(t, 0, "file")
	p.Set("file", "a: one(image=a)")
	f := start(t, upstream.Config{Podconfigd: p.Daemon()})
	wantLink(t, f.board.Desired, "LIVE")
	wantLink(t, f.board.SourcesLink, "LIVE")
	p.Down()
	if text := wantLink(t, f.board.Desired, "BROKEN"); text == "" {
		t.Error("the link doesn't say why it is broken")
	}
	wantLink(t, f.board.SourcesLink, "LIVE") // Nothing asks for the sources, so nothing is known of that.
	if f.board.Pods.Len() != 1 {
		t.Errorf("there are %d pods while podconfigd is away; want 1", f.board.Pods.Len())
	}
	p.Set("file", "a: one(image=b)")
	p.Set("file", "a: one(image=b) two(image=a)")
	p.Up()
	wantLink(t, f.board.Desired, "LIVE")
	f.wantEntries("1 ADD file: one", "2 UPDATE file: one", "3 ADD file: two")
}

// TestPodconfigdIsReplaced: another podconfigd at the same address is a new instance, whose differences come as one catch-up.
func TestPodconfigdIsReplaced(t *testing.T) {
	p := webtest.NewPodconfigd(t, 0, "file")
	p.Set("file", "a: one(image=a) two(image=a)")
	f := start(t, upstream.Config{Podconfigd: p.Daemon()})
	wantLink(t, f.board.Desired, "LIVE")
	p.Down()
	p.Replace()
	p.Set("file", "a: one(image=b)")
	p.Up()
	f.wantEntries("1 ADD file: one two", "1 CATCH_UP (new) REMOVE file: two UPDATE file: one")
	if got := names(f.board, 2); got != "one" {
		t.Errorf("then the pods are %q; want one", got)
	}
}
