package podexecd

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"
)

// TestWakeupsBeforeTheAgent: pods that are added before forward runs, or while it runs, reach it, each once for each time it was added and taken.
func TestWakeupsBeforeTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newPodQueue()
		q.Add("early")
		q.Add("early")
		ctx, cancel := context.WithCancel(t.Context())
		got := map[types.UID]int{}
		var running sync.WaitGroup
		running.Go(func() {
			forward(ctx, q, func(pods []types.UID) {
				for _, uid := range pods {
					got[uid]++
				}
			})
		})
		synctest.Wait()
		q.Add("late")
		synctest.Wait()
		q.Add("late")
		synctest.Wait()
		cancel()
		running.Wait()
		if len(got) != 2 || got["early"] != 1 || got["late"] != 2 {
			t.Errorf("woken: %v; want early once and late twice", got)
		}
	})
}
