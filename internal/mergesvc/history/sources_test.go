package history_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/merge"
)

// configure publishes the revision that replaces the configured sources. There must be one.
func (p *publisher) configure(t *testing.T, names ...string) {
	t.Helper()
	rev := p.merger.Configure(named(names))
	if rev == nil {
		t.Fatalf("to configure %v makes no revision; want one", names)
	}
	p.Append(rev)
}

// TestSourcesAt: the configured and ready sources at each kept revision. A source that stays keeps its
// readiness. One that is removed and configured again doesn't.
func TestSourcesAt(t *testing.T) {
	p := newPublisher(history.Config{Revisions: 6})
	p.set(t, "file", "")              // 1
	p.set(t, "api", "")               // 2
	p.configure(t, "http", "file")    // 3
	p.set(t, "http", "x: web(uid=u)") // 4
	p.configure(t, "file", "api")     // 5
	p.set(t, "api", "")               // 6
	check := func(number uint64, want string, wantKnown bool) {
		t.Helper()
		sources, known := p.SourcesAt(number)
		got := ""
		for _, s := range sources {
			got += fmt.Sprintf("%s=%v+%d ", s.Name, s.ReadyAt(number), s.Added)
		}
		if got != want || known != wantKnown {
			t.Errorf("at revision %d the sources are %s(known: %v); want %s(%v)", number, got, known, want, wantKnown)
		}
	}
	check(0, "file=false+0 api=false+0 ", true)
	check(1, "file=true+0 api=false+0 ", true)
	check(2, "file=true+0 api=true+0 ", true)
	check(3, "http=false+3 file=true+0 ", true)
	check(4, "http=true+3 file=true+0 ", true)
	check(5, "file=true+0 api=false+5 ", true)
	check(6, "file=true+0 api=true+5 ", true)
	if st := p.State(); st.SourcesSince != 5 || len(st.Sources) != 2 || st.Sources.Configured("http") {
		t.Errorf("the state has the sources %v since revision %d; want file and api since 5", st.Sources, st.SourcesSince)
	}

	// Revisions 3 to 8 are then kept, and a consumer at 2 can follow, so the sources at 2 are still known.
	// Older ones aren't.
	p.set(t, "file", "a: a()")        // 7
	p.set(t, "file", "a: a(image=2)") // 8
	check(2, "file=true+0 api=true+0 ", true)
	p.set(t, "file", "a: a(image=3)") // 9
	check(2, "http=false+3 file=true+0 ", false)
	check(3, "http=false+3 file=true+0 ", true)
	check(math.MaxUint64, "file=true+0 api=true+5 ", true)
}

// TestSourcesAtStart: the configured sources of an earlier process are unknown. At its last revision, this
// process's sources count.
func TestSourcesAtStart(t *testing.T) {
	p := newPublisher(history.Config{Start: history.Start{Instance: "life", Number: 7}})
	for number, want := range map[uint64]bool{0: false, 6: false, 7: true, 8: true} {
		sources, known := p.SourcesAt(number)
		if known != want || len(sources) != 2 || sources.Configured("http") || sources.AllReadyAt(number) {
			t.Errorf("at revision %d the sources are %v (known: %v); want file and api, not ready (%v)", number, sources, known, want)
		}
	}
	if st := p.State(); st.SourcesSince != 7 {
		t.Errorf("the sources are those since revision %d; want 7", st.SourcesSince)
	}
}

// TestConfigureNothing: a configuration without sources is valid.
func TestConfigureNothing(t *testing.T) {
	p := newPublisher(history.Config{})
	p.set(t, "file", "a: a()")
	p.configure(t)
	if st := p.State(); len(st.Sources) != 0 || len(st.Pods) != 0 || st.Number != 2 {
		t.Errorf("without sources revision %d has the sources %v and %d pods; want revision 2 with neither", st.Number, st.Sources, len(st.Pods))
	}
	if st, ok := p.StateAt(1); !ok || len(st.Sources) != 2 || len(st.Pods) != 1 {
		t.Error("the state before is lost")
	}
	if rev := p.merger.Configure([]merge.Source{}); rev != nil {
		t.Errorf("an equal configuration produces revision %d; want none", rev.Number)
	}
}
