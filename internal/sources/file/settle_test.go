package file

import (
	"testing"
	"time"
)

func TestComplete(t *testing.T) {
	const quiet = 100 * time.Millisecond
	const fresh, old = time.Millisecond, time.Minute
	tests := []struct {
		name string
		s    sighting
		want bool
	}{
		{"first listing: at once", sighting{occasion: firstListing, writers: writersNone, still: fresh}, true},
		{"first listing: writers unknown, just written", sighting{occasion: firstListing, writers: writersUnknown, still: fresh, written: fresh}, false},
		{"first listing: writers unknown, just renamed in", sighting{occasion: firstListing, writers: writersUnknown, still: fresh, written: quiet}, true},
		{"first listing: writers unknown, from the future", sighting{occasion: firstListing, writers: writersUnknown, still: -old, written: -old}, true},
		{"first listing: not under a writer", sighting{occasion: firstListing, writers: writersSome, still: fresh, written: fresh}, false},
		{"first listing: a writer that paused long ago", sighting{occasion: firstListing, writers: writersSome, still: old, written: old}, false},

		{"relist: old", sighting{occasion: relisting, writers: writersNone, still: old}, true},
		{"relist: old, writers unknown", sighting{occasion: relisting, writers: writersUnknown, still: old}, true},
		{"relist: just changed", sighting{occasion: relisting, writers: writersNone, still: fresh}, false},
		{"relist: from the future", sighting{occasion: relisting, writers: writersNone, still: -old}, false},
		{"relist: not under a writer", sighting{occasion: relisting, writers: writersSome, still: time.Second}, false},
		{"relist: a writer that paused long ago", sighting{occasion: relisting, writers: writersSome, still: old}, false},

		{"create: renamed in, by its times", sighting{occasion: created, writers: writersNone, version: stamp{size: 9}, metadataLast: true}, true},
		{"create: renamed in, by the event before", sighting{occasion: createdAfterRename, writers: writersNone, version: stamp{size: 9}}, true},
		{"create: an old file linked in", sighting{occasion: created, writers: writersNone, version: stamp{size: 9}, still: old}, true},
		{"create: written and closed", sighting{occasion: created, writers: writersNone, version: stamp{size: 9}, still: fresh}, false},
		{"create: from the future", sighting{occasion: created, writers: writersNone, version: stamp{size: 9}, still: -old}, false},
		{"create: empty", sighting{occasion: created, writers: writersNone, metadataLast: true, still: old}, false},
		{"create: empty, by a rename", sighting{occasion: createdAfterRename, writers: writersNone, still: old}, false},
		{"create: under a writer", sighting{occasion: createdAfterRename, writers: writersSome, version: stamp{size: 9}, metadataLast: true}, false},
		{"create: writers unknown", sighting{occasion: createdAfterRename, writers: writersUnknown, version: stamp{size: 9}, metadataLast: true, still: old}, false},

		{"unwritten: moved in", sighting{occasion: createdUnwritten, writers: writersNone, version: stamp{size: 9}, still: fresh}, true},
		{"unwritten: empty", sighting{occasion: createdUnwritten, writers: writersNone, still: old}, false},
		{"unwritten: under a writer", sighting{occasion: createdUnwritten, writers: writersSome, version: stamp{size: 9}}, false},
		{"unwritten: writers unknown", sighting{occasion: createdUnwritten, writers: writersUnknown, version: stamp{size: 9}, metadataLast: true}, false},

		{"quiet, be it empty", sighting{occasion: afterQuiet, writers: writersNone, still: quiet, waited: quiet}, true},
		{"quiet, writers unknown", sighting{occasion: afterQuiet, writers: writersUnknown, still: quiet, waited: quiet}, true},
		{"quiet, but under a writer", sighting{occasion: afterQuiet, writers: writersSome, still: old, waited: quiet}, false},
		{"quiet, but written again", sighting{occasion: afterQuiet, writers: writersNone, still: fresh, waited: quiet}, false},
		{"quiet, from the future", sighting{occasion: afterQuiet, writers: writersNone, still: -old, waited: quiet, steady: true}, true},
		{"quiet, from the future, and changed", sighting{occasion: afterQuiet, writers: writersUnknown, still: -old, waited: quiet}, false},
		{"waited enough, under a writer", sighting{occasion: afterQuiet, writers: writersSome, still: old, waited: settleLimit, steady: true}, false},
		{"waited enough, written again", sighting{occasion: afterQuiet, writers: writersUnknown, still: fresh, waited: settleLimit}, false},
		{"waited enough, writers unknown", sighting{occasion: afterQuiet, writers: writersUnknown, still: quiet, waited: settleLimit}, true},
	}
	for _, test := range tests {
		if got := test.s.complete(quiet); got != test.want {
			t.Errorf("%s: complete is %v, want %v", test.name, got, test.want)
		}
	}
}

func TestCurrent(t *testing.T) {
	at := time.Unix(1e9, 0)
	read := stamp{dev: 1, ino: 2, size: 3, mtime: at, ctime: at}
	later := read
	later.ctime = at.Add(1)
	tests := []struct {
		name string
		e    entry
		now  stamp
		want bool
	}{
		{"same", entry{stamp: read}, read, true},
		{"changed", entry{stamp: read}, later, false},
		{"read so soon that a change may not show", entry{stamp: read, racy: true}, read, false},
		{"not read at all", entry{print: fingerprint{problem: "is a socket"}}, stamp{}, false},
	}
	for _, test := range tests {
		if got := test.e.current(test.now); got != test.want {
			t.Errorf("%s: current is %v, want %v", test.name, got, test.want)
		}
	}
}

// TestAwaitIsBounded: a file that is written continuously is checked at the time limit.
func TestAwaitIsBounded(t *testing.T) {
	l := &loop{Config: Config{QuietPeriod: time.Second}, waits: map[string]*wait{}}
	start := time.Unix(1e9, 0)
	for i := range 40 {
		now := start.Add(time.Duration(i) * 100 * time.Millisecond)
		l.await("a", now)
		if want := min(now.Sub(start)+time.Second, settleLimit); l.waits["a"].due.Sub(start) != want || !l.wakeAt.Equal(l.waits["a"].due) {
			t.Fatalf("after %v: due after %v, woken after %v, want %v", now.Sub(start), l.waits["a"].due.Sub(start), l.wakeAt.Sub(start), want)
		}
	}
	// After that, the next check is one quiet period later, and not at once.
	late := start.Add(settleLimit)
	l.await("a", late)
	if due := l.waits["a"].due; !due.Equal(late.Add(time.Second)) {
		t.Errorf("at the limit: due after %v, want %v", due.Sub(late), time.Second)
	}
}
