package apistatus_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/apistatus/fakeapi"
)

// faults is a server's Fault that a test changes.
type faults struct {
	mu sync.Mutex
	f  func(fakeapi.Request) fakeapi.Fault
}

func (f *faults) set(fault func(fakeapi.Request) fakeapi.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.f = fault
}

func (f *faults) fault(r fakeapi.Request) fakeapi.Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.f == nil {
		return fakeapi.Fault{}
	}
	return f.f(r)
}

func code(c int) func(fakeapi.Request) fakeapi.Fault {
	return func(fakeapi.Request) fakeapi.Fault { return fakeapi.Fault{Code: c, Message: "no"} }
}

// levels are the levels and messages of log lines.
func levels(lines []string) []string {
	out := []string{}
	for _, line := range lines {
		if _, rest, ok := strings.Cut(line, "level="); ok {
			level, message, _ := strings.Cut(rest, " ")
			out = append(out, level+" "+strings.SplitN(message, `"`, 3)[1])
		}
	}
	return out
}

// A refusal is a pod's own: it is tried again with growing pauses, said once, and holds nobody else up. When it is over, what it held back
// is told.
func TestRefusal(t *testing.T) {
	for name, tt := range map[string]struct {
		code int
		want []string
	}{
		"forbidden": {http.StatusForbidden, []string{
			"WARN the API server forbids to tell it how pods are, or to remove them; trying again",
			"INFO the API server lets this node tell again how its pods are",
		}},
		"invalid": {http.StatusUnprocessableEntity, []string{
			"WARN the API server refuses to be told how a pod is, or to remove it; trying again",
			"WARN the API server refuses to be told how a pod is, or to remove it; trying again",
			"INFO the API server is told again how the pod is", "INFO the API server is told again how the pod is",
		}},
		"conflict of versions": {http.StatusConflict, []string{
			"WARN the API server refuses to be told how a pod is, or to remove it; trying again",
			"WARN the API server refuses to be told how a pod is, or to remove it; trying again",
			"INFO the API server is told again how the pod is", "INFO the API server is told again how the pod is",
		}},
		"throttled": {http.StatusTooManyRequests, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				var f faults
				n.api.Fault = f.fault
				f.set(func(r fakeapi.Request) fakeapi.Fault {
					if r.Name == "pod-3" {
						return fakeapi.Fault{}
					}
					return code(tt.code)(r)
				})
				for _, uid := range []types.UID{"1", "2", "3"} {
					n.create(uid)
					n.show(uid, syncing, ready())
				}
				if n.status("3").Phase != v1.PodRunning {
					t.Error("a pod waits for those that are refused")
				}
				time.Sleep(10 * time.Minute)
				if got := len(n.requests("patch", "1")); got < 15 || got > 40 {
					t.Errorf("in ten minutes there were %d attempts; want one in 15 to 45 s after the first", got)
				}
				f.set(nil)
				time.Sleep(time.Minute)
				if n.status("1").Phase != v1.PodRunning || n.status("2").Phase != v1.PodRunning {
					t.Error("a pod isn't told of after the refusal is over")
				}
				if diff := cmp.Diff(tt.want, levels(n.log.take())); diff != "" {
					t.Errorf("the log (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A server that says when to come again isn't asked before that; but the stream's word has the pod tried at once.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		var f faults
		n.api.Fault = f.fault
		f.set(func(fakeapi.Request) fakeapi.Fault {
			return fakeapi.Fault{Code: http.StatusTooManyRequests, RetryAfter: 100, Message: "later"}
		})
		n.create("1")
		n.show("1", syncing, ready())
		f.set(nil)
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
		var f faults
		n.api.Fault = f.fault
		f.set(func(fakeapi.Request) fakeapi.Fault {
			return fakeapi.Fault{Code: http.StatusTooManyRequests, RetryAfter: 100, Message: "later"}
		})
		pod := n.create("1")
		n.show("1", syncing, ready())
		f.set(nil)
		n.writer.Wake(pod)
		synctest.Wait()
		if n.status("1").Phase != v1.PodRunning {
			t.Error("the stream has told of the pod, and it isn't tried")
		}
	})
}

// A pod that the server doesn't have, or has another one in place of, is dropped until the stream tells of it.
func TestGone(t *testing.T) {
	for name, tt := range map[string]struct {
		invalid bool
		change  func(n *node)
	}{
		"removed":               {false, func(n *node) { n.api.Fault = code(http.StatusNotFound) }},
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
				if lines := levels(n.log.take()); len(lines) != 0 {
					t.Errorf("the log says %q; want nothing", lines)
				}
			})
		})
	}
}
