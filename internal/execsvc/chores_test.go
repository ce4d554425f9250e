package execsvc

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestChores: a round that hangs delays no caller, and no second one begins beside it. Its orphans are handed over once,
// and its error until the next round has ended.
func TestChores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := chores{done: make(chan chored, 1)}
		want := func(when string, orphans int, err error, idle bool) {
			t.Helper()
			synctest.Wait()
			got, free := c.take(time.Now())
			if len(got.orphans) != orphans || !errors.Is(got.err, err) || free != idle {
				t.Errorf("%s: %d orphans, %v, idle=%v; want %d, %v, %v", when, len(got.orphans), got.err, free, orphans, err, idle)
			}
		}
		want("before the first round", 0, nil, true)
		hang, failed := make(chan struct{}), errors.New("no answer")
		c.begin(t.Context(), time.Now(), func(context.Context) chored {
			<-hang
			return chored{orphans: []types.UID{"a", "b"}, err: failed}
		})
		want("while it hangs", 0, nil, false)
		time.Sleep(longestRound)
		want("while it may still end", 0, nil, false)
		time.Sleep(time.Second)
		if got, free := c.take(time.Now()); free || got.err == nil || !strings.Contains(got.err.Error(), c.began.Format(time.RFC3339)) {
			t.Errorf("after it has hung for long: %v, idle=%v; want an error with the time of its start", got.err, free)
		}
		close(hang)
		want("at its end", 2, failed, true)
		want("after its end", 0, failed, true)
		c.begin(t.Context(), time.Now(), func(context.Context) chored { return chored{} })
		want("after a good round", 0, nil, true)
		c.group.Wait()
	})
}
