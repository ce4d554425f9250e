package apistatus_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/cluster/apistatus/fakeapi"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// deleted has a user delete the pod.
func (n *node) deleted(name string) {
	n.api.Update("ns", name, func(p *v1.Pod) {
		grace := int64(30)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now().Add(30 * time.Second)}, &grace
	})
}

// A pod that is being deleted goes once all of it is torn down and its end stands at the server, by its UID and without grace.
func TestDeletionIsCompleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.createReady("1")
		n.deleted("pod-1")
		end := succeeded()
		n.show("1", terminating, end)
		time.Sleep(time.Minute)
		if got := n.status("1"); podmeta.IsTerminal(got.Phase) || got.ContainerStatuses[0].State.Terminated == nil {
			t.Errorf("while the pod ends the server has %+v; want how its container ended, and no end of the pod", got)
		}
		n.show("1", terminated, end)
		time.Sleep(time.Minute)
		if !podmeta.IsTerminal(n.status("1").Phase) || len(n.requests("delete", "1")) != 0 {
			t.Error("before all of the pod is torn down its end isn't told, or it is deleted")
		}
		n.show("1", finished, end)
		got := n.requests("", "1")
		last := got[len(got)-2:]
		if last[0].Verb != "patch" || last[1].Verb != "delete" || n.api.Get("ns", "pod-1") != nil {
			t.Fatalf("the last requests are %s, %s; want a patch, and then the deletion", last[0].Verb, last[1].Verb)
		}
		var patch v1.Pod
		var options metav1.DeleteOptions
		if err := json.Unmarshal(last[0].Body, &patch); err != nil || patch.Status.Phase != v1.PodSucceeded {
			t.Errorf("the patch is %s, %v; want the end", last[0].Body, err)
		}
		err := json.Unmarshal(last[1].Body, &options)
		if p := options.Preconditions; err != nil || p == nil || p.UID == nil || *p.UID != "1" || *options.GracePeriodSeconds != 0 {
			t.Errorf("the deletion's options are %s", last[1].Body)
		}
		time.Sleep(time.Minute)
		if again := n.requests("", "1"); len(again) != len(got) {
			t.Error("there were requests after the pod had gone")
		}
	})
}

// A server without a field of the status never stores all of it; the deletion is completed nevertheless.
func TestDeletionIsCompletedAtAnOldServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.create("1")
		n.api.Omit = func(s *v1.PodStatus) { s.ObservedGeneration = 0 }
		n.show("1", syncing, ready())
		n.deleted("pod-1")
		n.show("1", finished, succeeded())
		time.Sleep(time.Minute)
		n.wantGone("1")
		if got := n.requests("delete", "1"); len(got) != 1 {
			t.Errorf("its deletion was asked for %d times; want once", len(got))
		}
	})
}

// A pod that was deleted while podexecd was down, or before it started: containers that never started have failed,
// and the pod is removed.
func TestDeletedBeforeItStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.create("1")
		n.deleted("pod-1")
		var end v1.PodStatus
		n.api.Changed = func(p *v1.Pod, removed bool) {
			end = p.Status
			n.stream(p, removed)
		}
		n.show("1", terminating, pending())
		n.show("1", finished, statusOf(v1.PodFailed, false, waits("ContainerCreating")))
		n.wantGone("1")
		s := end.ContainerStatuses[0].State.Terminated
		if end.Phase != v1.PodFailed || s == nil || s.ExitCode != 137 || s.Reason != "ContainerStatusUnknown" {
			t.Errorf("its last status is %+v; want that it failed, and its container by 137", end)
		}
	})
}

// That the pod isn't there any more is as good; all else is tried again.
func TestDeletionFails(t *testing.T) {
	for name, tt := range map[string]struct {
		fault fakeapi.Fault
		// again: it is asked again, and then the pod goes.
		again bool
	}{
		"not found":   {fakeapi.Fault{Code: http.StatusNotFound, Message: "no"}, false},
		"another UID": {fakeapi.Fault{Code: http.StatusConflict, Message: "Precondition failed: UID in precondition: 1, UID in object meta: 2"}, false},
		"internal":    {fakeapi.Fault{Code: http.StatusInternalServerError, Message: "no"}, true},
		"no answer":   {fakeapi.Fault{Lost: true}, true},
		"cut answer":  {fakeapi.Fault{Lost: true, Done: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				n.fail(firstDeletion(tt.fault))
				n.create("1")
				n.deleted("pod-1")
				n.show("1", finished, succeeded())
				time.Sleep(time.Minute)
				if got := len(n.requests("delete", "1")) == 2; got != tt.again {
					t.Errorf("it is asked for again: %v; want %v", got, tt.again)
				}
			})
		})
	}
}

// A pod with finalizers stays for a while; it isn't deleted time and again meanwhile.
func TestFinalizers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		pod := newPod("1")
		pod.Finalizers = []string{"example.com/f"}
		n.api.Put(pod)
		n.deleted("pod-1")
		n.show("1", finished, succeeded())
		for range 5 {
			n.api.Update("ns", "pod-1", func(p *v1.Pod) { p.Labels = map[string]string{"at": time.Now().String()} })
			time.Sleep(time.Minute)
		}
		if got := len(n.requests("delete", "1")); got != 1 {
			t.Errorf("there were %d deletions; want one", got)
		}
	})
}

// A pod that isn't being deleted stays when it has ended.
func TestEndedPodStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.create("1")
		n.show("1", finished, succeeded())
		time.Sleep(time.Minute)
		if len(n.requests("delete", "")) != 0 || n.status("1").Phase != v1.PodSucceeded {
			t.Error("the pod was deleted, or isn't told to have ended")
		}
		// It is deleted long after that: nothing has to be reported then.
		n.deleted("pod-1")
		synctest.Wait()
		n.wantGone("1")
		if len(n.requests("patch", "1")) != 1 {
			t.Error("the pod was patched again")
		}
	})
}

// A 404 of a proxy doesn't mean that the pod is gone: the request is repeated.
func TestForeignNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		foreign := func(verb string) func(fakeapi.Request) fakeapi.Fault {
			return only(func(r fakeapi.Request) bool { return r.Verb == verb },
				fakeapi.Fault{Code: http.StatusNotFound, Message: "404 page not found", Foreign: true})
		}
		n.fail(foreign("patch"))
		n.createReady("1")
		n.fail(nil)
		time.Sleep(time.Minute)
		if n.status("1").Phase != v1.PodRunning {
			t.Error("the server wasn't told of the pod again")
		}
		n.fail(foreign("delete"))
		n.deleted("pod-1")
		n.show("1", finished, succeeded())
		time.Sleep(10 * time.Minute)
		if got := len(n.requests("delete", "1")); got < 10 || got > 40 {
			t.Errorf("there were %d deletions in ten minutes; want one in 15 to 45 s", got)
		}
		n.fail(nil)
		time.Sleep(time.Minute)
		n.wantGone("1")
	})
}

// A deletion of a pod that the server doesn't have is repeated when the stream has the pod, as after a restored
// backup.
func TestDeletedPodComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.create("1")
		n.deleted("pod-1")
		n.fail(firstDeletion(fakeapi.Fault{Code: http.StatusNotFound, Message: "no"}))
		n.show("1", finished, succeeded())
		n.api.Update("ns", "pod-1", func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} })
		time.Sleep(time.Minute)
		n.wantGone("1")
	})
}
