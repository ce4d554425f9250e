package apistatus_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/cluster/apistatus/fakeapi"
)

// A refusal affects one pod: its request is retried with growing pauses, logged once, and delays no other pod. When
// it is over, the delayed status is posted.
func TestRefusal(t *testing.T) {
	for name, tt := range map[string]struct {
		code int
		want []string
	}{
		"forbidden": {http.StatusForbidden, []string{
			"WARN the API server forbids to post pods' statuses, or to remove pods; retrying",
			"INFO the API server allows this node to post pods' statuses again",
		}},
		"invalid": {http.StatusUnprocessableEntity, []string{
			"WARN the API server rejects a pod's status, or its removal; retrying",
			"WARN the API server rejects a pod's status, or its removal; retrying",
			"INFO the pod's status can be posted again", "INFO the pod's status can be posted again",
		}},
		"conflict of versions": {http.StatusConflict, []string{
			"WARN the API server rejects a pod's status, or its removal; retrying",
			"WARN the API server rejects a pod's status, or its removal; retrying",
			"INFO the pod's status can be posted again", "INFO the pod's status can be posted again",
		}},
		"throttled": {http.StatusTooManyRequests, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				n.fail(only(func(r fakeapi.Request) bool { return r.Name != "pod-3" }, fakeapi.Fault{Code: tt.code, Message: "no"}))
				n.createReady("1", "2", "3")
				if n.status("3").Phase != v1.PodRunning {
					t.Error("a pod waits for those that are refused")
				}
				time.Sleep(10 * time.Minute)
				if got := len(n.requests("patch", "1")); got < 15 || got > 40 {
					t.Errorf("in ten minutes there were %d attempts; want one in 15 to 45 s after the first", got)
				}
				n.fail(nil)
				time.Sleep(time.Minute)
				if n.status("1").Phase != v1.PodRunning || n.status("2").Phase != v1.PodRunning {
					t.Error("a pod isn't told of after the refusal is over")
				}
				n.wantLog(tt.want...)
			})
		})
	}
}

// A Retry-After of the server is respected; but a change in the stream causes an immediate attempt.
func TestRetryAfter(t *testing.T) {
	later := always(fakeapi.Fault{Code: http.StatusTooManyRequests, RetryAfter: 100, Message: "later"})
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.fail(later)
		n.createReady("1")
		n.fail(nil)
		time.Sleep(99 * time.Second)
		n.show("1", syncing, succeeded())
		if got := len(n.requests("patch", "1")); got != 1 {
			t.Errorf("the server was asked %d times before the time that it gave", got)
		}
		time.Sleep(2 * time.Second)
		if got := len(n.requests("patch", "1")); got != 2 {
			t.Errorf("the server was asked %d times; want twice", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.fail(later)
		n.createReady("1")
		n.fail(nil)
		n.writer.Wake(n.pods.Get("1"))
		synctest.Wait()
		if n.status("1").Phase != v1.PodRunning {
			t.Error("the stream has told of the pod, and it isn't tried")
		}
	})
}

// A pod that the server doesn't have, or has replaced, is dropped until the stream has it.
func TestGone(t *testing.T) {
	for name, tt := range map[string]struct {
		invalid bool
		change  func(n *node)
	}{
		"removed":               {false, func(n *node) { n.fail(always(fakeapi.Fault{Code: http.StatusNotFound, Message: "no"})) }},
		"another UID, conflict": {false, func(n *node) { n.api.Update("ns", "pod-1", func(p *v1.Pod) { p.UID = "other" }) }},
		"another UID, invalid":  {true, func(n *node) { n.api.Update("ns", "pod-1", func(p *v1.Pod) { p.UID = "other" }) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				pod := n.create("1")
				n.api.Changed = nil
				n.api.InvalidUID = tt.invalid
				tt.change(n)
				for i := range 5 {
					n.show("1", syncing, statusOf(v1.PodRunning, i%2 == 0, runs()))
					time.Sleep(time.Minute)
				}
				if got := len(n.requests("patch", "1")); got != 1 {
					t.Errorf("there were %d attempts; want one", got)
				}
				n.writer.Wake(pod)
				time.Sleep(time.Minute)
				if got := len(n.requests("patch", "1")); got != 2 {
					t.Errorf("after the stream's word there were %d attempts; want two", got)
				}
				n.wantLog()
			})
		})
	}
}
