package history_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstream/podstream/internal/mergesvc/history"
)

// TestLater: Readers that are woken later are woken shortly after the others. They are woken once for revisions that
// follow each other quickly, and miss none.
func TestLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPublisher(history.Config{})
		one, other := p.NewReader(history.ReaderConfig{}), p.NewReader(history.ReaderConfig{Later: true})
		_, _, _, first := one.Next(0)
		_, _, _, later := other.Next(0)
		p.set(t, "file", "a: web()")
		if now, too := taken(first), taken(later); !now || too {
			t.Errorf("woken at once are the first: %v, and the others: %v; want only the first", now, too)
		}
		p.set(t, "file", "a: web(image=2)")
		if rev, at, kept, _ := other.Next(1); rev == nil || rev.Number != 2 || at != 1 || !kept {
			t.Errorf("the revision after 1 is %v, %v; want revision 2, which exists", rev, kept)
		}
		if rev, _, kept, _ := other.Next(2); rev != nil || !kept {
			t.Errorf("the revision after 2 is %v, %v; want none yet", rev, kept)
		}
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if !taken(later) {
			t.Error("the others aren't woken; want them woken shortly after the first")
		}
		time.Sleep(time.Hour)
		if taken(later) {
			t.Error("the others are woken without a revision")
		}
		other.Next(2)
		p.set(t, "file", "a: web(image=3)")
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if !taken(later) {
			t.Error("the others aren't woken for the next revision")
		}
		if _, _, kept, _ := other.Next(99); kept {
			t.Error("a revision that was never reached is kept")
		}
		one.Close()
		other.Close()
		taken(first)
		p.set(t, "file", "a: web(image=4)")
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if taken(first) || taken(later) {
			t.Error("readers are woken after Close")
		}
	})
}

// TestLaterGroups: the groups are woken one after another, and again for a revision that is published meanwhile.
func TestLaterGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const groups = 16
		p := newPublisher(history.Config{})
		var readers []*history.Reader
		for range groups {
			readers = append(readers, p.NewReader(history.ReaderConfig{Later: true}))
		}
		// woken takes the readers' values, and has the woken ones wait after the given revision.
		woken := func(number uint64) (n int) {
			for _, r := range readers {
				_, _, _, more := r.Next(number)
				if taken(more) {
					n++
				}
			}
			return n
		}
		woken(0)
		p.set(t, "file", "a: web()")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if n := woken(1); n != 1 {
			t.Errorf("%d groups are woken at first; want 1", n)
		}
		// The first group has read revision 1 when this revision is published.
		p.set(t, "file", "a: web(image=2)")
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if n := woken(2); n != groups {
			t.Errorf("%d groups are woken for revision 2; want all", n)
		}
		time.Sleep(time.Hour)
		if n := woken(2); n != 0 {
			t.Errorf("%d groups are woken though nothing has changed", n)
		}
	})
}
