package nodecert

import (
	"testing"
	"testing/synctest"
	"time"
)

// A request whose answer was lost is found again: no second one is created.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		a.loses, a.decision = true, leave
		n.bootstrapTo(a)
		c := n.start(a)
		a.awaitRequests(1)
		a.set(func() { a.loses = false })
		time.Sleep(time.Minute)
		a.decideAll(approve)
		awaitMe(t, c)
		a.wantRequests(1)
	})
}

// A server that accepts connections and never answers is tried again. The certificate arrives soon after it
// answers.
func TestHangingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := newAPI(t), newNode(t)
		a.hangs = true
		n.bootstrapTo(a)
		c := n.start(a)
		time.Sleep(time.Hour)
		if n.log.Count("can't get a certificate") != 1 {
			t.Error("the log doesn't have the error once")
		}
		a.set(func() { a.hangs = false })
		begun := time.Now()
		awaitMe(t, c)
		if took := time.Since(begun); took > answerTime+2*longestPause {
			t.Errorf("that took %v", took)
		}
	})
}
