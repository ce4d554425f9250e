package history_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// TestStateIsTheReplay appends random revisions, some of which change the sources, and compares each State with
// the pods of a consumer that applied them all, sorted by namespace, name and UID, and with the sources that
// were then configured.
func TestStateIsTheReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := mergetest.NewRandom("file", "api")
		merger := merge.New([]merge.Source{{Name: "file"}, {Name: "api"}}, merge.Stored{})
		h := history.New(history.Config{Instance: history.Instance{ID: "life"}, Sources: []string{"file", "api"}, Revisions: 3, Tombstones: 2})
		consumer := mergetest.At(h.State())
		past := map[uint64]*history.State{0: h.State()}
		for range rapid.IntRange(1, 15).Draw(t, "sets") {
			var rev *revision.Revision
			if rapid.IntRange(0, 3).Draw(t, "configure") == 0 {
				rev = merger.Configure(named(rapid.SliceOfDistinct(rapid.SampledFrom([]string{"file", "api", "http"}), rapid.ID).Draw(t, "sources")))
			} else {
				rev = merger.Apply(random.Draw(t))
			}
			if rev == nil {
				continue
			}
			h.Append(rev)
			if err := consumer.Apply(rev.Changes); err != nil {
				t.Fatalf("revision %d: %v", rev.Number, err)
			}
			st := h.State()
			if st.Number != rev.Number {
				t.Fatalf("the state is of revision %d; want %d", st.Number, rev.Number)
			}
			if err := consumer.Diff(st.Pods, mergetest.None); err != nil {
				t.Fatalf("state of revision %d: %v", st.Number, err)
			}
			if !slices.IsSortedFunc(st.Pods, byName) {
				t.Fatalf("the pods of revision %d aren't sorted by namespace, name and UID: %s", st.Number, describe(st))
			}
			// The states of earlier revisions are available while the later revisions are kept.
			past[st.Number] = st
			for number, want := range past {
				got, ok := h.StateAt(number)
				if kept := number+3 >= st.Number; ok != kept {
					t.Fatalf("StateAt(%d) at revision %d reports %v; want %v", number, st.Number, ok, kept)
				}
				same := func(a, b *revision.Pod) bool {
					return byName(a, b) == 0 && a.SpecDigest == b.SpecDigest && a.StatusDigest == b.StatusDigest && a.Source == b.Source
				}
				if sources := readiness(got, number); ok && sources != readiness(want, number) {
					t.Fatalf("StateAt(%d) at revision %d has the sources %s; want %s", number, st.Number, sources, readiness(want, number))
				}
				if ok && !slices.EqualFunc(got.Pods, want.Pods, same) {
					t.Fatalf("StateAt(%d) at revision %d:\n%s\nwant\n%s", number, st.Number, describe(got), describe(want))
				}
			}
		}
	})
}

// TestStateIsShared: all callers between two appends share one State, so that many consumers cost one snapshot.
func TestStateIsShared(t *testing.T) {
	p := newPublisher(history.Config{})
	p.set(t, "file", "a: web()")
	first := p.State()
	if p.State() != first {
		t.Error("a second State without an append is another one; want the same pointer")
	}
	p.set(t, "file", "a: web(image=2)")
	if p.State() == first {
		t.Error("the State after an append is the one before; want another one")
	}
}

// TestStateNeverChanges: states that readers have don't change while revisions are appended. With -race, this
// also checks that nothing that they point to is written.
func TestStateNeverChanges(t *testing.T) {
	p := newPublisher(history.Config{Revisions: 4, Tombstones: 3})
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			held := map[*history.State]string{}
			for {
				st := p.State()
				if text, ok := held[st]; !ok {
					held[st] = describe(st)
				} else if now := describe(st); now != text {
					t.Errorf("the state of revision %d has changed:\n%s\nwant\n%s", st.Number, now, text)
				}
				select {
				case <-done:
					for st, text := range held {
						if now := describe(st); now != text {
							t.Errorf("the state of revision %d has changed in the end:\n%s\nwant\n%s", st.Number, now, text)
						}
					}
					return
				default:
				}
			}
		})
	}
	for i := range 200 {
		p.set(t, "file", fmt.Sprintf("a: web(uid=u%d) db(image=%d)\nb: other-%d()", i%7, i, i%3))
	}
	p.set(t, "api", "")
	close(done)
	readers.Wait()
}

func named(names []string) []merge.Source {
	out := make([]merge.Source, 0, len(names))
	for _, n := range names {
		out = append(out, merge.Source{Name: n})
	}
	return out
}

// readiness returns the readiness of the state's sources after a revision. A nil state has none.
func readiness(st *history.State, number uint64) string {
	out := ""
	if st != nil {
		for _, s := range st.Sources {
			out += fmt.Sprintf("%s=%v ", s.Name, s.ReadyAt(number))
		}
	}
	return out
}

func byName(a, b *revision.Pod) int {
	return cmp.Or(strings.Compare(a.Object.Namespace, b.Object.Namespace), strings.Compare(a.Object.Name, b.Object.Name),
		strings.Compare(string(a.UID()), string(b.UID())))
}

func describe(st *history.State) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d horizon %d sources %v", st.Number, st.Horizon, st.Sources)
	for _, p := range st.Pods {
		fmt.Fprintf(&b, " %s(%s)@%d=%s", p, p.UID(), p.SpecChanged, p.SpecDigest)
	}
	for _, tomb := range st.Tombstones {
		fmt.Fprintf(&b, " -%s@%d", tomb.Pod.UID(), tomb.Removed)
	}
	return b.String()
}
