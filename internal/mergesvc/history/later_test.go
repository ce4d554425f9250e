package history_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstream/podstream/internal/mergesvc/history"
)

// TestNextLater: readers that wait with NextLater are woken shortly after readers that wait with Next. They are
// woken once for revisions that follow each other quickly, and miss none.
func TestNextLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPublisher(history.Config{})
		closed := func(more <-chan struct{}) bool {
			select {
			case <-more:
				return true
			default:
				return false
			}
		}
		_, _, first := p.Next(0)
		_, _, later := p.NextLater(0, 0)
		p.set(t, "file", "a: web()")
		if !closed(first) || closed(later) {
			t.Errorf("woken at once are the first: %v, and the others: %v; want only the first", closed(first), closed(later))
		}
		p.set(t, "file", "a: web(image=2)")
		if rev, kept, _ := p.NextLater(1, 0); rev == nil || rev.Number != 2 || !kept {
			t.Errorf("the revision after 1 is %v, %v; want revision 2, which exists", rev, kept)
		}
		rev, kept, again := p.NextLater(2, 0)
		if rev != nil || !kept {
			t.Errorf("the revision after 2 is %v, %v; want none yet", rev, kept)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if !closed(later) || !closed(again) {
			t.Error("the others aren't woken; want them woken shortly after the first")
		}
		_, _, next := p.NextLater(2, 0)
		time.Sleep(time.Hour)
		if closed(next) {
			t.Error("the others are woken without a revision")
		}
		p.set(t, "file", "a: web(image=3)")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if !closed(next) {
			t.Error("the others aren't woken for the next revision")
		}
		if _, kept, _ := p.NextLater(99, 0); kept {
			t.Error("a revision that was never reached is kept")
		}
	})
}

// TestNextLaterGroups: the groups are woken one after another, and again for a revision that is published
// meanwhile.
func TestNextLaterGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const groups = 16
		p := newPublisher(history.Config{})
		wait := func(number uint64) (out []<-chan struct{}) {
			for group := range uint64(groups) {
				_, _, more := p.NextLater(number, group)
				out = append(out, more)
			}
			return out
		}
		woken := func(of []<-chan struct{}) (n int) {
			for _, more := range of {
				select {
				case <-more:
					n++
				default:
				}
			}
			return n
		}
		first := wait(0)
		p.set(t, "file", "a: web()")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if n := woken(first); n != 1 {
			t.Errorf("%d groups are woken at first; want 1", n)
		}
		// The first group has read revision 1 when this revision is published.
		second := wait(1)
		p.set(t, "file", "a: web(image=2)")
		time.Sleep(5 * time.Millisecond)
		synctest.Wait()
		if n, again := woken(first), woken(second); n != groups || again != groups {
			t.Errorf("%d groups are woken for revision 1, %d for revision 2; want all for each", n, again)
		}
		last := wait(2)
		time.Sleep(time.Hour)
		if n := woken(last); n != 0 {
			t.Errorf("%d groups are woken though nothing has changed", n)
		}
	})
}
