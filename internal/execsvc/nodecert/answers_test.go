package nodecert

import (
	"testing"
	"testing/synctest"
	"time"
)

// A request whose answer was lost is found again: no second one is made.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		a.loses, a.decision = true, leave
		n.bootstrapTo(a)
		c := n.client(a)
		run(t, c.Run)
		await(t, "the request is made", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.created == 1 })
		a.mu.Lock()
		a.loses = false
		a.mu.Unlock()
		time.Sleep(time.Minute)
		a.decideAll(approve)
		await(t, "requests get through", isMe(t, c))
		if a.created != 1 {
			t.Errorf("%d requests were made; want one", a.created)
		}
	})
}

// A server that takes connections and never answers is asked again: the certificate comes soon after it answers.
func TestHangingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		a.hangs = true
		n.bootstrapTo(a)
		c := n.client(a)
		run(t, c.Run)
		time.Sleep(time.Hour)
		if n.log.count("no certificate can be had") != 1 {
			t.Error("the log doesn't say once what is wrong")
		}
		a.mu.Lock()
		a.hangs = false
		a.mu.Unlock()
		begun := time.Now()
		await(t, "requests get through", isMe(t, c))
		if took := time.Since(begun); took > answerTime+2*longestPause {
			t.Errorf("that took %v", took)
		}
	})
}
