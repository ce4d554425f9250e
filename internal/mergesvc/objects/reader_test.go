package objects

import (
	"testing"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// TestReaderIsWoken: a Reader of a node is woken when an object of its node appears, changes or goes, and when a source
// becomes ready; not for other nodes, and not after Close. It isn't behind revisions of other nodes, though the Hub no
// longer keeps them.
func TestReaderIsWoken(t *testing.T) {
	pods, h := newHubs(Config{Revisions: 2})
	all := func(*revision.Pod) bool { return true }
	mine := h.NewReader(Scope{Nodes: []string{"n1"}, Match: all})
	every := h.NewReader(Scope{Match: all})
	defer every.Close()
	at := h.Number()
	apply := func(what string, want bool, users ...*manifest.Pod) {
		t.Helper()
		pods.Apply(set("file", users))
		h.Advance()
		select {
		case <-mine.woken:
			if !want {
				t.Errorf("%s: the reader is woken; want it not", what)
			}
		default:
			if want {
				t.Errorf("%s: the reader isn't woken; want it woken", what)
			}
		}
		if revisions, since := mine.Behind(at); (revisions > 0) != want || since.IsZero() == want {
			t.Errorf("%s: the reader is %d revisions behind, since %v", what, revisions, since)
		}
		d, kept, _ := mine.Next(at)
		if !kept {
			t.Fatalf("%s: the revision after %d isn't kept", what, at)
		}
		if at = d.Number; at != h.Number() {
			t.Errorf("%s: the reader comes to revision %d; want the last one, %d", what, at, h.Number())
		}
	}
	one, two := user("one", "n1", "x", "a"), user("two", "n2", "x", "b")
	apply("the source becomes ready", true)
	apply("an object is needed on another node", false, two)
	apply("an object is needed on the node", true, two, one)
	start := at
	apply("another one elsewhere", false, user("two", "n2", "x", "c"), one)
	apply("and another one", false, user("two", "n2", "x", "d"), one)
	apply("and another one", false, user("two", "n2", "x", "e"), one)
	if revisions, _ := mine.Behind(start); revisions != 0 {
		t.Errorf("at revision %d the reader is %d behind; want 0, as later ones are of other nodes", start, revisions)
	}
	if revisions, _ := every.Behind(start); revisions != 3 {
		t.Errorf("at revision %d a reader of all nodes is %d behind; want 3", start, revisions)
	}
	apply("the pod of the node goes", true, user("two", "n2", "x", "e"))
	mine.Close()
	pods.Apply(set("file", []*manifest.Pod{one}))
	h.Advance()
	select {
	case <-mine.woken:
		t.Error("the reader is woken after Close")
	default:
	}
}
