package history_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
)

// publisher merges sets in mergetest's notation into a history.
type publisher struct {
	*history.History
	merger *merge.Merger
	second int64
}

func newPublisher(cfg history.Config) *publisher {
	cfg.Instance, cfg.Sources = history.Instance{ID: "life"}, []string{"file", "api"}
	return &publisher{History: history.New(cfg), merger: merge.New([]merge.Source{{Name: "file"}, {Name: "api"}}, merge.Stored{})}
}

// set publishes the revision that the set produces. There must be one.
func (p *publisher) set(t *testing.T, source, text string) {
	t.Helper()
	p.second++
	rev := p.merger.Apply(mergetest.Set(source, p.second, text))
	if rev == nil {
		t.Fatalf("the set %q of %s makes no revision; want one", text, source)
	}
	rev.Published = time.Unix(p.second, 0)
	p.Append(rev)
}

// TestNext reads the revision after each number, from a history that keeps three revisions and is at the fifth.
func TestNext(t *testing.T) {
	p := newPublisher(history.Config{Revisions: 3})
	for i := range 5 {
		p.set(t, "file", fmt.Sprintf("a: web(image=%d)", i))
	}
	for _, tc := range []struct {
		name     string
		number   uint64
		want     uint64
		wantKept bool
	}{
		{"before everything that is kept", 0, 0, false},
		{"one too early", 1, 0, false},
		{"the first that is kept", 2, 3, true},
		{"the last one", 4, 5, true},
		{"nothing new", 5, 0, true},
		{"from the future", 6, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rev, kept, more := p.Next(tc.number)
			if kept != tc.wantKept || (rev == nil) != (tc.want == 0) || rev != nil && rev.Number != tc.want {
				t.Errorf("Next(%d) gives %v, kept=%v; want revision %d, kept=%v", tc.number, rev, kept, tc.want, tc.wantKept)
			}
			if more == nil {
				t.Error("Next gave no channel to wait on; want one in every case")
			}
		})
	}
}

// TestNextOfNothing: in a history without revisions, a consumer at zero waits, and any other number is unknown.
func TestNextOfNothing(t *testing.T) {
	p := newPublisher(history.Config{})
	rev, kept, more := p.Next(0)
	if !kept || rev != nil {
		t.Fatalf("Next(0) gives %v, kept=%v; want nothing, kept", rev, kept)
	}
	if _, kept, _ := p.Next(1); kept {
		t.Error("Next(1) reports kept; want that revision 1 isn't, as there was none")
	}
	select {
	case <-more:
		t.Fatal("the channel is closed; want it open until the first append")
	default:
	}
	p.set(t, "file", "a: web()")
	<-more
	if rev, kept, _ := p.Next(0); !kept || rev == nil || rev.Number != 1 {
		t.Errorf("Next(0) gives %v, kept=%v, after the first append; want revision 1, kept", rev, kept)
	}
}

// TestTombstones checks which removals are kept, with a limit of two.
func TestTombstones(t *testing.T) {
	p := newPublisher(history.Config{Tombstones: 2})
	p.set(t, "file", "a: a() b() c() d()") // 1
	steps := []struct {
		set         string
		wantTombs   []string
		wantHorizon uint64
	}{
		{"a: b() c() d()", []string{"a@2"}, 0},
		{"a: a() c() d()", []string{"a@2", "b@3"}, 0},
		{"a: c() d()", []string{"b@3", "a@4"}, 2},
		// Two removals at once drop two tombstones: all removals after revision 4 are known.
		{"a: ", []string{"c@5", "d@5"}, 4},
		{"a: x()", []string{"c@5", "d@5"}, 4},
		// One of the two tombstones of revision 5 is dropped: only removals after 5 are complete.
		{"a: ", []string{"d@5", "x@7"}, 5},
	}
	for _, step := range steps {
		p.set(t, "file", step.set)
		st := p.State()
		got := []string{}
		for _, tomb := range st.Tombstones {
			got = append(got, fmt.Sprintf("%s@%d", tomb.Pod.UID(), tomb.Removed))
			if len(tomb.Pod.Object.Spec.Containers) > 0 {
				t.Errorf("the tombstone of %s has the pod's content; want the reference only", tomb.Pod)
			}
		}
		if diff := cmp.Diff(step.wantTombs, got); diff != "" || st.Horizon != step.wantHorizon {
			t.Errorf("after the set %q: horizon %d, want %d; tombstones (-want +got):\n%s", step.set, st.Horizon, step.wantHorizon, diff)
		}
	}
}

// TestReadiness: readiness has its revision, and a State keeps the revision of its time.
func TestReadiness(t *testing.T) {
	p := newPublisher(history.Config{})
	before := p.State()
	p.set(t, "api", "")       // 1
	p.set(t, "api", "x: x()") // 2
	p.set(t, "file", "")      // 3
	now := p.Sources()
	for _, tc := range []struct {
		what string
		got  bool
		want bool
	}{
		{"api is ready in the state before it spoke", before.ReadyAt("api", 99), false},
		{"api is ready at 0", now.ReadyAt("api", 0), false},
		{"api is ready at 1", now.ReadyAt("api", 1), true},
		{"file is ready at 2", now.ReadyAt("file", 2), false},
		{"file is ready at 3", now.ReadyAt("file", 3), true},
		{"all are ready at 2", now.AllReadyAt(2), false},
		{"all are ready at 3", now.AllReadyAt(3), true},
		{"a stranger is ready", now.ReadyAt("http", 3), false},
		{"file is configured", now.Configured("file"), true},
		{"a stranger is configured", now.Configured("http"), false},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %v; want %v", tc.what, tc.got, tc.want)
		}
	}
}
