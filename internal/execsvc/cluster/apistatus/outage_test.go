package apistatus_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/cluster/apistatus/fakeapi"
)

// outage is the log of an outage: one line when it begins, and one when it is over.
var outage = []string{
	"WARN the API server doesn't answer; pods keep running, and their statuses are posted once it does",
	"INFO pods' statuses can be posted again",
}

// While the server is away for a day one pod tries for all, every few seconds. Within seconds after it is back all
// statuses are posted, each once, and the state has one entry per pod.
func TestOutageOfADay(t *testing.T) {
	for name, tt := range map[string]struct {
		fault fakeapi.Fault
		hours int
	}{
		"nobody listens":    {fakeapi.Fault{Lost: true}, 24},
		"nobody knows us":   {fakeapi.Fault{Code: http.StatusUnauthorized, Message: "Unauthorized"}, 1},
		"etcd is away":      {fakeapi.Fault{Code: http.StatusServiceUnavailable, Message: "no"}, 1},
		"the answer is cut": {fakeapi.Fault{Lost: true, Done: true}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				n.fail(always(tt.fault))
				n.api.Changed = nil
				const pods = 20
				for i := range pods {
					uid := types.UID(fmt.Sprint(i))
					n.stream(n.create(uid), false)
					n.show(uid, syncing, ready())
				}
				for hour := range tt.hours {
					time.Sleep(time.Hour)
					for i := range pods {
						n.show(types.UID(fmt.Sprint(i)), syncing, restarted(ready(), hour+1))
					}
				}
				if got := len(n.requests("", "")); got < tt.hours*3600/6 || got > tt.hours*3600/4+2*pods {
					t.Errorf("there were %d requests in %d hours; want one in four to six seconds", got, tt.hours)
				}
				n.fail(nil)
				time.Sleep(8 * time.Second)
				for i := range pods {
					if got := n.status(types.UID(fmt.Sprint(i))).ContainerStatuses; len(got) == 0 || got[0].RestartCount != int32(tt.hours) {
						t.Fatalf("pod %d isn't told of 8 s after the server is back", i)
					}
				}
				n.wantLog(outage...)
			})
		})
	}
}

// The pod that tries for all may be removed; another one tries then. A change in the stream causes an immediate
// attempt.
func TestOutageProberLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.fail(always(fakeapi.Fault{Lost: true}))
		n.createReady("1", "2")
		time.Sleep(time.Minute)
		// They take turns: it is that one's which didn't try last.
		tried := n.requests("", "")
		gone, left := types.UID("1"), types.UID("2")
		if tried[len(tried)-1].Name == "pod-1" {
			gone, left = left, gone
		}
		n.board.Remove(gone)
		n.createReady("3")
		time.Sleep(time.Minute)
		before := len(n.requests("", ""))
		time.Sleep(time.Minute)
		if got := len(n.requests("", "")) - before; got < 10 {
			t.Errorf("there were %d attempts in a minute after the pod that tried was removed; want 10 at least", got)
		}
		n.fail(nil)
		n.writer.Wake(n.pods.Get("3"))
		synctest.Wait()
		if n.status(left).Phase != v1.PodRunning || n.status("3").Phase != v1.PodRunning {
			t.Error("the stream has told of a pod, and the server isn't tried")
		}
	})
}

// A server that hangs holds each request up for its time-out only, and Run ends without waiting for that.
func TestHangingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.fail(always(fakeapi.Fault{Hangs: true, Lost: true}))
		n.createReady("1")
		time.Sleep(time.Minute)
		if got := n.requests("", ""); len(got) < 3 || len(got) > 6 {
			t.Errorf("there were %d attempts in a minute; want one in 10 to 16 s", len(got))
		}
		begun := time.Now()
		n.cancel()
		if took := time.Since(begun); took != 0 {
			t.Errorf("Run ended after %v", took)
		}
	})
}

// A pod whose requests hang, because of a webhook of its namespace for example, delays no other pod, and is logged
// once.
func TestOnePodHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.fail(only(func(r fakeapi.Request) bool { return r.Name == "pod-1" }, fakeapi.Fault{Hangs: true, Lost: true}))
		n.create("1")
		n.create("2")
		n.show("1", syncing, ready())
		for i := range 100 {
			n.show("2", syncing, restarted(ready(), i))
			time.Sleep(7 * time.Second)
			if got := n.status("2").ContainerStatuses; len(got) == 0 || got[0].RestartCount != int32(i) {
				t.Fatalf("after %d changes the other pod waits for the one that hangs", i)
			}
		}
		n.fail(nil)
		time.Sleep(20 * time.Second)
		if n.status("1").Phase != v1.PodRunning {
			t.Error("the pod isn't told of after its requests don't hang any more")
		}
		n.wantLog(
			"WARN the API server doesn't answer requests about a pod; retrying",
			"INFO the pod's status can be posted again",
		)
	})
}

// If some pods' requests hang, the others are still sent.
func TestSomePodsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.fail(only(func(r fakeapi.Request) bool { return r.Name < "pod-4" }, fakeapi.Fault{Hangs: true, Lost: true}))
		n.createReady("1", "2", "3", "4", "5", "6", "7", "8", "9")
		time.Sleep(30 * time.Second)
		for i := range 6 {
			n.show(types.UID(fmt.Sprint(i+4)), syncing, statusOf(v1.PodRunning, false, runs()))
		}
		time.Sleep(2 * time.Minute)
		for i := range 6 {
			if n.status(types.UID(fmt.Sprint(i + 4))).ContainerStatuses[0].Ready {
				t.Errorf("pod %d isn't told of", i+4)
			}
		}
	})
}

// An outage is logged once, also if there are no requests for a while.
func TestOutageWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.fail(always(fakeapi.Fault{Lost: true}))
		for _, uid := range []types.UID{"1", "2"} {
			n.create(uid)
		}
		before := n.pods.Get("1").Status.DeepCopy()
		for range 3 {
			for _, uid := range []types.UID{"1", "2"} {
				n.show(uid, syncing, ready())
			}
			time.Sleep(time.Minute)
			for _, uid := range []types.UID{"1", "2"} {
				n.show(uid, 0, before)
			}
			time.Sleep(time.Minute)
		}
		n.fail(nil)
		n.show("1", syncing, ready())
		time.Sleep(time.Minute)
		n.wantLog(outage...)
	})
}
