package history_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstream/podstream/internal/mergesvc/history"
)

// taken reports whether the channel has a value, or is closed, and takes the value.
func taken(more <-chan struct{}) bool {
	select {
	case <-more:
		return true
	default:
		return false
	}
}

// TestReaderIsWoken: a Reader of a node is woken for the revisions of its node, for those about sources, for the first
// one of another instance, and by Wake; not for others, and not after Close.
func TestReaderIsWoken(t *testing.T) {
	for name, later := range map[string]bool{"first": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPublisher(history.Config{})
				r := p.NewReader(history.ReaderConfig{Nodes: []string{"n1"}, Later: later})
				_, _, _, more := r.Next(0)
				want := func(what string, want bool) {
					t.Helper()
					if later && taken(more) {
						t.Errorf("%s: the reader is woken with the first ones", what)
					}
					if later {
						time.Sleep(10 * time.Millisecond)
						synctest.Wait()
					}
					if got := taken(more); got != want {
						t.Errorf("%s: the reader is woken: %v; want %v", what, got, want)
					}
				}
				p.set(t, "file", "a: other(node=n2)")
				want("a source becomes ready", true)
				p.set(t, "file", "a: other(node=n2,image=2)")
				want("a pod of another node changes", false)
				p.set(t, "file", "a: other(node=n2,image=2) mine(node=n1)")
				want("a pod appears on the node", true)
				p.set(t, "file", "a: other(node=n2,image=3) mine(node=n1,phase=Running)")
				want("its status changes", true)
				p.set(t, "file", "a: other(node=n2,image=3) mine(node=n2,phase=Running)")
				want("it leaves the node", true)
				p.set(t, "file", "a: other(node=n2,image=3) mine(node=n2,phase=Failed)")
				want("it changes elsewhere", false)
				p.Wake()
				want("all are woken", true)
				p.Begin(history.Instance{ID: "temporary", Temporary: true})
				p.set(t, "file", "a: other(node=n2,image=4)")
				want("another instance begins", true)
				p.set(t, "file", "a: other(node=n2,image=5)")
				want("the instance goes on", false)
				r.Close()
				p.set(t, "file", "a: mine(node=n1)")
				want("it is closed", false)
			})
		})
	}
}

// TestReaderClosedWhileDue: a Reader that is closed between a revision and the round that would wake it isn't kept.
func TestReaderClosedWhileDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPublisher(history.Config{})
		r := p.NewReader(history.ReaderConfig{Nodes: []string{"n1"}, Later: true})
		_, _, _, more := r.Next(0)
		p.set(t, "file", "a: mine(node=n1)")
		r.Close()
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if taken(more) {
			t.Error("the closed reader is woken")
		}
	})
}

// TestReaderSkips: revisions that don't concern the nodes are passed, though they are no longer kept, and the Reader
// isn't behind. One that does is returned as long as it is kept.
func TestReaderSkips(t *testing.T) {
	p := newPublisher(history.Config{Revisions: 3})
	r := p.NewReader(history.ReaderConfig{Nodes: []string{"n1"}})
	defer r.Close()
	p.set(t, "file", "a: other(node=n2) mine(node=n1,image=1)") // 1
	want := func(number, wantRev, wantAt uint64, wantKept bool, wantBehind uint64) {
		t.Helper()
		rev, at, kept, _ := r.Next(number)
		if kept != wantKept || (rev == nil) != (wantRev == 0) || rev != nil && rev.Number != wantRev || kept && at != wantAt {
			t.Errorf("Next(%d) returns %v at %d, kept %v; want %d at %d, kept %v", number, rev, at, kept, wantRev, wantAt, wantKept)
		}
		if behind, since := r.Behind(number); behind != wantBehind || since.IsZero() != (wantBehind == 0) {
			t.Errorf("at %d the reader is %d revisions behind, since %v; want %d", number, behind, since, wantBehind)
		}
	}
	want(0, 1, 0, true, 1)
	want(1, 0, 1, true, 0)
	mine := 1
	others := func(count int) {
		for range count {
			p.set(t, "file", fmt.Sprintf("a: other(node=n2,image=%d) mine(node=n1,image=%d)", p.second, mine))
		}
	}
	others(5) // 6
	want(1, 0, 6, true, 0)
	want(0, 0, 0, false, 6)
	want(7, 0, 0, false, 0)
	mine = 2
	others(1) // 7
	want(1, 7, 6, true, 1)
	want(7, 0, 7, true, 0)
	others(2) // 9
	want(1, 7, 6, true, 3)
	others(1) // 10
	want(1, 0, 0, false, 9)
	want(7, 0, 10, true, 0)
}

// TestReaderStateSince: a pod that has changed its node in this process is in the state, wherever it is. For a consumer
// from before, all pods are, as any of them may have.
func TestReaderStateSince(t *testing.T) {
	stored := newPublisher(history.Config{})
	stored.set(t, "file", "a: mine(node=n1) other(node=n2) gone(node=n2)")
	start := history.Start{Instance: "life", Number: 1, Pods: stored.State().Pods}
	p := &publisher{History: history.New(history.Config{Instance: history.Instance{ID: "life"}, Start: start}), merger: stored.merger}
	r := p.NewReader(history.ReaderConfig{Nodes: []string{"n1"}})
	defer r.Close()
	p.second = 1
	p.set(t, "file", "a: mine(node=n2) other(node=n2,image=2) new(node=n1)")
	names := func(st *history.State) (out string) {
		for _, pod := range st.Pods {
			out += pod.Object.Name + " "
		}
		return out
	}
	for _, tc := range []struct {
		what string
		got  *history.State
		want string
	}{
		{"a consumer of the process", r.StateSince(1), "mine new "},
		{"a consumer from before", r.StateSince(0), "mine new other "},
		{"a new consumer", r.State(), "mine new "},
	} {
		if got := names(tc.got); got != tc.want || tc.got.Number != 2 {
			t.Errorf("%s: the state of revision %d has the pods %q; want revision 2 with %q", tc.what, tc.got.Number, got, tc.want)
		}
	}
	if st, ok := r.StateAt(1); !ok || names(st) != "mine " {
		t.Errorf("the state at 1 has the pods %q, %v; want mine", names(st), ok)
	}
	if _, ok := r.StateAt(3); ok {
		t.Error("there is a state at revision 3; want none, as it wasn't reached")
	}
}

// TestReaderOfManyNodes: a Reader of more nodes than an index is used for reads all revisions, and all pods.
func TestReaderOfManyNodes(t *testing.T) {
	p := newPublisher(history.Config{})
	var nodes []string
	for i := range 9 {
		nodes = append(nodes, fmt.Sprint("n", i))
	}
	r := p.NewReader(history.ReaderConfig{Nodes: nodes})
	defer r.Close()
	p.set(t, "file", "a: web(node=n9)")
	p.set(t, "file", "a: web(node=n9,image=2)")
	_, _, _, more := r.Next(2)
	p.set(t, "file", "a: web(node=n9,image=3)")
	if rev, at, kept, _ := r.Next(2); !taken(more) || rev == nil || rev.Number != 3 || at != 2 || !kept {
		t.Errorf("Next(2) returns %v at %d, kept %v; want revision 3 at 2, for which it is woken", rev, at, kept)
	}
	if st := r.State(); len(st.Pods) != 1 {
		t.Errorf("the state has %d pods; want the one", len(st.Pods))
	}
	if behind, _ := r.Behind(1); behind != 2 {
		t.Errorf("at 1 the reader is %d behind; want 2", behind)
	}
}
