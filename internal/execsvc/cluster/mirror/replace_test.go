package mirror

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/cluster/apistatus/fakeapi"
)

// A Node that was deleted and made again is another one: mirror pods that are the former one's would be taken for garbage.
func TestNodeIsAnotherOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, newPod("web-n1", "u1"))
		time.Sleep(time.Minute)
		n.with(func() { n.uid = "" })
		time.Sleep(time.Minute)
		if n.verbs() != "create" {
			t.Errorf("while the Node isn't known the requests are %q", n.verbs())
		}
		n.with(func() { n.uid = "another" })
		time.Sleep(time.Minute)
		if got := n.api.Get("ns", "web-n1"); got == nil || got.OwnerReferences[0].UID != "another" || n.verbs() != "create delete create" {
			t.Errorf("the mirror pod is %+v, the requests are %q", got, n.verbs())
		}
	})
}

// While it isn't known whose the next mirror pod would be, an outdated one stays.
func TestOutdatedStaysWithoutNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, newPod("web-n1", "u1"))
		time.Sleep(time.Minute)
		n.with(func() { n.uid = "" })
		n.replace(newPod("web-n1", "u1"), newPod("web-n1", "u2"))
		time.Sleep(time.Minute)
		if n.hash("web-n1") != "u1" {
			t.Errorf("the mirror pod is of %q; want it to stay", n.hash("web-n1"))
		}
		n.with(func() { n.uid = "node-uid" })
		time.Sleep(3 * time.Second)
		if n.hash("web-n1") != "u2" {
			t.Errorf("the mirror pod is of %q", n.hash("web-n1"))
		}
	})
}

// While the former version of a static pod is terminating, its mirror pod stays.
func TestFormerVersionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, newPod("web-n1", "u1"))
		time.Sleep(time.Minute)
		n.with(func() { n.ending = true })
		n.replace(newPod("web-n1", "u1"), newPod("web-n1", "u2"))
		time.Sleep(time.Minute)
		if n.hash("web-n1") != "u1" || n.verbs() != "create" {
			t.Errorf("the mirror pod is of %q, the requests are %q", n.hash("web-n1"), n.verbs())
		}
		n.with(func() { n.ending = false })
		time.Sleep(3 * time.Second)
		if n.hash("web-n1") != "u2" || n.verbs() != "create delete create" {
			t.Errorf("once it has ended, the mirror pod is of %q, the requests are %q", n.hash("web-n1"), n.verbs())
		}
	})
}

// The end of a static pod shows at its mirror pod. If it begins again (it was evicted, or there is room for it now), so does that.
func TestStaticPodStartsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, newPod("web-n1", "u1"))
		time.Sleep(time.Minute)
		before := n.api.Get("ns", "web-n1").UID
		n.api.Update("ns", "web-n1", func(p *v1.Pod) { p.Status.Phase = v1.PodFailed })
		time.Sleep(10 * time.Minute)
		if got := n.api.Get("ns", "web-n1"); got.UID != before {
			t.Error("the mirror pod of a pod that has ended was replaced")
		}
		n.with(func() { n.lives, n.lag = true, 10*time.Second })
		time.Sleep(10 * time.Minute)
		if got := n.api.Get("ns", "web-n1"); got == nil || got.UID == before || n.verbs() != "create delete create" {
			t.Errorf("the mirror pod is %+v, the requests are %q", got, n.verbs())
		}
	})
}

// What a proxy says isn't the API server's word, and a pod that comes back (the server was given a backup, say) is removed again.
func TestOrphanIsNotDropped(t *testing.T) {
	for name, fault := range map[string]fakeapi.Fault{
		"a proxy's word":  {Code: http.StatusNotFound, Message: "404 page not found", Foreign: true},
		"the pod is back": {Code: http.StatusNotFound, Message: "no"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				n.with(func() { n.fault = func(fakeapi.Request) fakeapi.Fault { return fault } })
				n.api.Put(newMirror("web-n1", "u1"))
				time.Sleep(10 * time.Second)
				n.with(func() { n.fault = nil })
				time.Sleep(2 * time.Minute)
				if n.hash("web-n1") != "" {
					t.Error("the orphan is still there")
				}
				time.Sleep(time.Hour)
				if got := len(n.api.Requests()); got > 10 {
					t.Errorf("there were %d requests", got)
				}
			})
		})
	}
}

// A mirror pod with a finalizer stays for a while. There is no storm of deletions meanwhile.
func TestFinalizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		orphan := newMirror("web-n1", "u1")
		orphan.UID, orphan.Finalizers = types.UID("orphan"), []string{"example.com/f"}
		n.api.Put(orphan)
		time.Sleep(time.Hour)
		if got := len(n.api.Requests()); got > 61 {
			t.Errorf("there were %d requests in an hour; want one a minute at most", got)
		}
		n.put(newPod("web-n1", "u1"))
		time.Sleep(time.Hour)
		if got := len(n.api.Requests()); got > 600 {
			t.Errorf("there were %d requests in two hours", got)
		}
		n.api.Drop("ns", "web-n1")
		time.Sleep(time.Minute)
		if got := n.api.Get("ns", "web-n1"); got == nil || got.UID == "orphan" {
			t.Errorf("the mirror pod is %v", got)
		}
	})
}

// A client that deletes mirror pods as soon as they are created doesn't cause a storm of requests.
func TestDeletedMirrorPodsCauseNoStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		stream := n.api.Changed
		n.api.Changed = func(pod *v1.Pod, removed bool) {
			stream(pod, removed)
			if !removed {
				time.AfterFunc(10*time.Millisecond, func() { n.api.Drop(pod.Namespace, pod.Name) })
			}
		}
		n.put(newPod("web-n1", "u1"))
		time.Sleep(time.Minute)
		if got := len(n.api.Requests()); got < 10 || got > 31 {
			t.Errorf("there were %d requests in a minute; want one in two seconds", got)
		}
	})
}
