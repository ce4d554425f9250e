package mirror

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/cluster/apistatus/fakeapi"
)

// Another pod with the mirror pod's name stays, is logged once, and is replaced after its removal.
func TestForeignPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		foreign := newPod("web-n1", "foreign")
		n.api.Put(foreign)
		n.put(newPod("web-n1", "u1"))
		n.put(newPod("db-n1", "u2"))
		time.Sleep(10 * time.Minute)
		if got := n.log.Count("another pod has its name"); got != 1 || n.hash("db-n1") != "u2" {
			t.Errorf("it is told %d times, and another mirror pod is there: %v", got, n.hash("db-n1") == "u2")
		}
		if got := len(n.api.Requests()); got > 70 {
			t.Errorf("there were %d requests in ten minutes", got)
		}
		n.api.Drop("ns", "web-n1")
		time.Sleep(time.Minute)
		if n.hash("web-n1") != "u1" || n.log.Count("level=INFO msg=\"the static pod's mirror pod is correct again\"") != 1 {
			t.Error("there is no mirror pod, or the log doesn't say that nothing is wrong any more")
		}
	})
}

// The stream of a podconfigd without the API server as a source lacks mirror pods. That is logged once, and again if
// it recurs.
func TestStreamWithoutMirrorPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const said = "podconfigd's stream lacks mirror pods"
		n := newNode(t)
		n.with(func() { n.deaf = true })
		n.put(newPod("web-n1", "u1"))
		n.put(newPod("db-n1", "u2"))
		time.Sleep(streamPatience)
		if got := n.log.Count(said); got != 0 {
			t.Errorf("it is told %d times before it can be known", got)
		}
		for want := 1; want <= 2; want++ {
			time.Sleep(10 * streamPatience)
			if got := n.log.Count(said); got != want {
				t.Errorf("it is told %d times; want %d", got, want)
			}
			mirrors := []*v1.Pod{n.api.Get("ns", "web-n1"), n.api.Get("ns", "db-n1")}
			for _, mirror := range mirrors {
				n.stream(mirror, false)
			}
			time.Sleep(time.Minute)
			for _, mirror := range mirrors {
				n.stream(mirror, true)
			}
		}
	})
}

// A rejected mirror pod is logged once, and retried with pauses; nothing else waits for it.
func TestRefusals(t *testing.T) {
	for _, code := range []int{http.StatusForbidden, http.StatusNotFound, http.StatusInternalServerError, http.StatusTooManyRequests} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			n.with(func() {
				n.fault = func(r fakeapi.Request) fakeapi.Fault {
					if r.Namespace == "missing" {
						return fakeapi.Fault{Code: code, Message: "no"}
					}
					return fakeapi.Fault{}
				}
			})
			pod := newPod("web-n1", "u1")
			pod.Namespace = "missing"
			n.put(pod)
			n.put(newPod("db-n1", "u2"))
			time.Sleep(10 * time.Minute)
			if n.log.Count("level=WARN") != 1 || n.hash("db-n1") != "u2" {
				t.Errorf("%d: there are %d warnings; another mirror pod is there: %v", code, n.log.Count("level=WARN"), n.hash("db-n1") == "u2")
			}
			if got := len(n.api.Requests()); got < 20 || got > 40 {
				t.Errorf("%d: there were %d requests in ten minutes; want one in half a minute", code, got)
			}
			n.with(func() { n.fault = nil })
			time.Sleep(time.Minute)
			if n.api.Get("missing", "web-n1") == nil {
				t.Errorf("%d: the mirror pod isn't made when nothing is in its way any more", code)
			}
		})
	}
}

// An outage of the server is logged once, and all mirror pods follow soon after it.
func TestOutage(t *testing.T) {
	for name, fault := range map[string]fakeapi.Fault{
		"nobody listens": {Lost: true}, "nobody knows us": {Code: http.StatusUnauthorized}, "hangs": {Lost: true, Hangs: true},
		"cut answers": {Lost: true, Done: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				n.with(func() { n.fault = func(fakeapi.Request) fakeapi.Fault { return fault } })
				for i := range 5 {
					n.put(newPod(fmt.Sprint("web", i), fmt.Sprint("u", i)))
				}
				time.Sleep(24 * time.Hour)
				n.with(func() { n.fault = nil })
				time.Sleep(80 * time.Second)
				for i := range 5 {
					if n.hash(fmt.Sprint("web", i)) == "" {
						t.Errorf("pod %d has no mirror pod", i)
					}
				}
				if name != "cut answers" && (n.log.Count("doesn't answer") != 1 || n.log.Count("answers again") != 1) {
					t.Errorf("the outage is told %d times, its end %d times", n.log.Count("doesn't answer"), n.log.Count("answers again"))
				}
			})
		})
	}
}
