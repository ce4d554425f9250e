package podview

import (
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// reader holds what it has read, as UID → what the pod waits for.
type reader struct {
	at   Position
	pods map[types.UID]string
}

// read takes what changed, or only the first few of it.
func (r *reader) read(b *Board, most int) {
	changes, now, _, resumed := b.Since(r.at)
	if !resumed {
		r.pods = map[types.UID]string{}
		most = len(changes) // All pods are taken whole or not at all.
	}
	for _, c := range changes[:min(most, len(changes))] {
		if c.Removed {
			delete(r.pods, c.Pod.UID)
		} else {
			r.pods[c.Pod.UID] = c.Pod.WaitsFor
		}
		r.at = c.At
	}
	if most >= len(changes) {
		r.at = now
	}
}

// Whatever happens, and however far behind readers are and stop, in the end they hold what is shown.
func TestReadersConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, model := New(), map[types.UID]string{}
		readers := []*reader{{}, {}, {}}
		uid := rapid.Map(rapid.IntRange(0, 5), func(i int) types.UID { return types.UID(fmt.Sprint(i)) })
		n := 0
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				n++
				p := Pod{UID: uid.Draw(t, "uid"), WaitsFor: fmt.Sprint(n), Source: rapid.SampledFrom([]string{"file", "api"}).Draw(t, "source")}
				b.Set(p)
				model[p.UID] = p.WaitsFor
			},
			"remove": func(t *rapid.T) {
				u := uid.Draw(t, "uid")
				b.Remove(u)
				delete(model, u)
			},
			"churn": func(t *rapid.T) {
				for i := range rapid.SampledFrom([]int{1, 1, 1, keptRemovals + 10}).Draw(t, "pods") {
					p := Pod{UID: types.UID(fmt.Sprint("brief", i)), Name: fmt.Sprint(n)}
					b.Set(p)
					b.Remove(p.UID)
				}
			},
			"read": func(t *rapid.T) {
				rapid.SampledFrom(readers).Draw(t, "reader").read(b, rapid.SampledFrom([]int{1, 2, 1000}).Draw(t, "most"))
			},
			"": func(t *rapid.T) {
				shown := map[types.UID]string{}
				for _, p := range b.All() {
					shown[p.UID] = p.WaitsFor
				}
				if diff := cmp.Diff(model, shown); diff != "" {
					t.Fatalf("shown (-want +got):\n%s", diff)
				}
				for i, r := range readers {
					caughtUp := &reader{at: r.at, pods: maps.Clone(r.pods)}
					caughtUp.read(b, len(model)+2*keptRemovals)
					if diff := cmp.Diff(model, caughtUp.pods); diff != "" {
						t.Fatalf("reader %d at %v (-want +got):\n%s", i, r.at, diff)
					}
				}
			},
		})
	})
}

// Readers that wait for more miss nothing that is written meanwhile.
func TestConcurrentReaders(t *testing.T) {
	b := New()
	const times = 200
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			r := &reader{}
			for {
				_, _, more, _ := b.Since(r.at)
				r.read(b, times)
				if r.pods["last"] != "" {
					break
				}
				<-more
			}
			if got, want := r.pods["1"], fmt.Sprint(times-1); got != want {
				t.Errorf("a reader has %q; want %q", got, want)
			}
		})
	}
	for i := range times {
		b.Set(Pod{UID: "1", WaitsFor: fmt.Sprint(i)})
		b.Set(Pod{UID: "2", WaitsFor: fmt.Sprint(i)})
		b.Remove("2")
	}
	b.Set(Pod{UID: "last", WaitsFor: "nothing"})
	wg.Wait()
}
