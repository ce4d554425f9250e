package nodeindex_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/mergesvc/nodeindex"
)

// concerned is one revision of the model.
type concerned struct {
	number uint64
	nodeindex.Concern
}

func (c concerned) of(nodes []string) bool {
	return c.Every || slices.ContainsFunc(c.Nodes, func(n string) bool { return slices.Contains(nodes, n) })
}

// TestIndex: for readers that join, read and leave at any time, an Index finds the revisions that a list of all
// revisions has, and yields the readers that each concerns. What it doesn't keep it reports, unless it is certain that
// nothing of it concerned the nodes.
func TestIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", ""}
		some := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID)
		first := rapid.Uint64Range(0, 3).Draw(t, "floor")
		x := nodeindex.New[int](first)
		var all []concerned
		number, dropped, joined := first, 0, 0
		readers := map[int][]string{}
		positions := map[int]uint64{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"add", "add", "drop", "join", "leave", "read"}).Draw(t, "step") {
			case "add":
				number++
				c := concerned{number, nodeindex.Concern{Nodes: some.Draw(t, "nodes"), Every: rapid.IntRange(0, 5).Draw(t, "every") == 0}}
				all = append(all, c)
				x.Add(number, c.Concern)
				woken := map[int]bool{}
				for r := range x.Readers(c.Concern) {
					woken[r] = true
				}
				for r, nodes := range readers {
					if woken[r] != c.of(nodes) {
						t.Fatalf("revision %v yields the reader of %q: %v", c, nodes, woken[r])
					}
					delete(woken, r)
				}
				if len(woken) > 0 {
					t.Fatalf("revision %v yields readers %v, which have left", c, woken)
				}
			case "drop":
				if dropped < len(all) {
					x.Drop()
					dropped++
				}
			case "join":
				joined++
				readers[joined], positions[joined] = some.Draw(t, "nodes"), number
				x.Join(joined, readers[joined])
			case "leave":
				for r, nodes := range readers {
					x.Leave(r, nodes)
					delete(readers, r)
					break
				}
			case "read":
				for r, nodes := range readers {
					next, kept := x.Next(positions[r], nodes)
					want := slices.IndexFunc(all, func(c concerned) bool { return c.number > positions[r] && c.of(nodes) })
					switch {
					case want >= 0 && want < dropped:
						if kept {
							t.Fatalf("Next(%d, %q) returns %d; want not kept, as %v is dropped", positions[r], nodes, next, all[want])
						}
						positions[r] = number
						continue
					case !kept:
						// A reader that has followed since it joined misses nothing.
						t.Fatalf("Next(%d, %q) isn't kept; want it kept", positions[r], nodes)
					case want < 0 && next == 0:
						positions[r] = number
					case want < 0 || next != all[want].number:
						t.Fatalf("Next(%d, %q) returns %d; want one of %v", positions[r], nodes, next, all)
					default:
						positions[r] = next
					}
				}
			}
		}
		for r, nodes := range readers {
			x.Leave(r, nodes)
		}
		for ; dropped < len(all); dropped++ {
			x.Drop()
		}
		if n := x.Size(); n != 0 {
			t.Fatalf("%d nodes are left without readers and revisions; want none", n)
		}
	})
}

// TestIndexBeforeJoin: of revisions that were dropped before a reader joined, it isn't known whether they concerned its
// nodes.
func TestIndexBeforeJoin(t *testing.T) {
	x := nodeindex.New[string](0)
	for number := uint64(1); number <= 3; number++ {
		x.Add(number, nodeindex.Concern{Nodes: []string{fmt.Sprint("n", number)}})
	}
	x.Drop()
	x.Join("reader", []string{"n1"})
	for number, want := range map[uint64]bool{0: false, 1: true, 2: true} {
		if next, kept := x.Next(number, []string{"n1"}); kept != want || next != 0 {
			t.Errorf("Next(%d) returns %d, kept %v; want 0, kept %v", number, next, kept, want)
		}
	}
	if next, kept := x.Next(1, []string{"n1", "n3", "n2"}); next != 2 || !kept {
		t.Errorf("Next(1) of all nodes returns %d, kept %v; want 2", next, kept)
	}
}
