package apistatus_test

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/cluster/apistatus/fakeapi"
)

// From creation to Ready a pod needs at most three patches, and readiness is posted at once.
func TestStartTakesFewPatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.create("1")
		n.show("1", waiting, nil)
		n.show("1", syncing, pending())
		time.Sleep(40 * time.Millisecond)
		n.show("1", syncing, statusOf(v1.PodPending, false, waits("PodInitializing")))
		time.Sleep(300 * time.Millisecond)
		withIP := statusOf(v1.PodPending, false, waits("ContainerCreating"))
		withIP.PodIP, withIP.PodIPs = "10.0.0.1", []v1.PodIP{{IP: "10.0.0.1"}}
		n.show("1", syncing, withIP)
		time.Sleep(50 * time.Millisecond)
		up := ready()
		up.PodIP, up.PodIPs = withIP.PodIP, withIP.PodIPs
		n.show("1", syncing, up)
		patches := n.requests("patch", "1")
		if len(patches) > 3 {
			t.Errorf("the start took %d patches; want 3 at most", len(patches))
		}
		if last := patches[len(patches)-1]; time.Since(last.At) != 0 || n.status("1").Phase != v1.PodRunning {
			t.Errorf("the pod became ready, and %v ago the server was told that it is %s", time.Since(last.At), n.status("1").Phase)
		}
		if got := n.status("1"); got.PodIP != "10.0.0.1" || !got.ContainerStatuses[0].Ready || got.ObservedGeneration != 1 {
			t.Errorf("the server has %+v", got)
		}
		time.Sleep(time.Minute)
		if got := n.requests("", ""); len(got) != len(patches) {
			t.Errorf("there were %d requests after the pod had started; want none", len(got)-len(patches))
		}
	})
}

// Changes that aren't urgent are gathered for a tenth of a second, counted from the first one: the last of them counts.
func TestChangesCoalesce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.create("1")
		n.show("1", syncing, pending())
		time.Sleep(time.Second)
		begun := len(n.requests("patch", "1"))
		for i := range 10 {
			n.show("1", syncing, restarted(pending(), i+1))
			time.Sleep(15 * time.Millisecond)
		}
		time.Sleep(time.Second)
		if got := len(n.requests("patch", "1")) - begun; got != 2 || n.status("1").ContainerStatuses[0].RestartCount != 10 {
			t.Errorf("ten changes in 150 ms took %d patches and came to %d; want 2 and 10", got, n.status("1").ContainerStatuses[0].RestartCount)
		}
	})
}

// A restart of podexecd posts nothing that the server has already.
func TestRestartIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.create("1")
		n.create("2")
		n.show("1", syncing, ready())
		n.show("2", finished, succeeded())
		time.Sleep(time.Second)
		up, ended := ready(), succeeded()
		before := len(n.requests("", ""))
		first := n.status("1").DeepCopy()
		// The same states, as another life reads them from the runtime: with other times where the status began to be kept again.
		up.ContainerStatuses[0].State.Running.StartedAt = first.ContainerStatuses[0].State.Running.StartedAt
		for i := range up.Conditions {
			up.Conditions[i].LastTransitionTime = metav1.NewTime(first.StartTime.Add(-time.Hour))
			ended.Conditions[i].LastTransitionTime = up.Conditions[i].LastTransitionTime
		}
		n.live()
		n.show("1", syncing, up)
		n.show("2", syncing, ended)
		n.show("2", finished, ended)
		time.Sleep(time.Minute)
		if got := n.requests("", "")[before:]; len(got) != 0 {
			t.Errorf("after the restart there were %d requests; the first: %s %s", len(got), got[0].Verb, got[0].Body)
		}
	})
}

// The status stored before a restart may be older than the last posted one: it isn't posted until podexecd has
// computed its own.
func TestStoredStatusWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.create("1")
		n.show("1", syncing, pending())
		time.Sleep(time.Second)
		n.show("1", syncing, ready())
		stored := pending()
		now := n.status("1").DeepCopy()
		before := len(n.requests("patch", "1"))
		n.live()
		old := n.boardPod("1", stored)
		old.Changed = time.Now().Add(-time.Minute)
		n.board.Set(old)
		time.Sleep(500 * time.Millisecond)
		n.show("1", syncing, now)
		time.Sleep(time.Minute)
		if got := n.requests("patch", "1")[before:]; len(got) != 0 {
			t.Errorf("the server was told of an older life's status: %s", got[0].Body)
		}
		// If nothing new is made of it, it is the truth.
		n.live()
		old.Changed = time.Now().Add(-time.Minute)
		n.board.Set(old)
		time.Sleep(3 * time.Second)
		if got := n.requests("patch", "1")[before:]; len(got) != 1 || n.status("1").Phase != v1.PodPending {
			t.Errorf("an older life's last status took %d patches, and the server has the phase %s; want one and Pending", len(got), n.status("1").Phase)
		}
	})
}

// That a pod runs is not a status: the server's has more.
func TestSkeletonIsNotPosted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.create("1")
		n.show("1", syncing, &v1.PodStatus{Phase: v1.PodRunning})
		n.show("1", 0, ready())
		time.Sleep(time.Minute)
		if got := n.requests("", ""); len(got) != 0 {
			t.Errorf("the server was told %s", got[0].Body)
		}
	})
}

// A difference made by another client shows in the streamed copy, and is corrected; parts that others own stay.
func TestStreamedDifferenceIsMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.createReady("1")
		n.api.Update("ns", "pod-1", func(p *v1.Pod) {
			p.Status.Phase = v1.PodPending
			p.Status.ContainerStatuses = nil
			p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: "example.com/gate", Status: v1.ConditionTrue})
		})
		time.Sleep(time.Second)
		got := n.status("1")
		if got.Phase != v1.PodRunning || len(got.ContainerStatuses) != 1 || got.Conditions[len(got.Conditions)-1].Type != "example.com/gate" {
			t.Errorf("the server has %+v", got)
		}
		n.api.Update("ns", "pod-1", func(p *v1.Pod) { p.Status.Conditions[len(p.Status.Conditions)-1].Status = v1.ConditionFalse })
		n.show("1", syncing, statusOf(v1.PodRunning, false, runs()))
		if got := n.status("1").Conditions; got[len(got)-1].Status != v1.ConditionFalse {
			t.Error("a condition of another's was set back")
		}
	})
}

// The answer to a patch is known before the stream brings it: the next patch is made from it.
func TestAnswerIsTheBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.create("1")
		n.api.Changed = nil // The stream brings nothing.
		n.show("1", syncing, ready())
		n.show("1", syncing, restarted(ready(), 1))
		time.Sleep(time.Second)
		got := n.patches("1")
		if len(got) != 2 || got[1].Phase != "" || got[1].ContainerStatuses[0].RestartCount != 1 {
			t.Errorf("the patches are %+v; want a second one of the restart only", got)
		}
		// An older copy that comes late changes nothing.
		n.writer.Wake(n.pods.Get("1"))
		time.Sleep(time.Second)
		if len(n.patches("1")) != 2 {
			t.Error("an older copy of the stream was believed")
		}
	})
}

// Each pod has at most one patch under way, and of the changes meanwhile the last counts.
func TestOneAtATimeAndTheLatestWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.create("1")
		n.create("2")
		hold := make(chan struct{})
		n.fail(func(r fakeapi.Request) fakeapi.Fault {
			if r.Name == "pod-1" {
				<-hold
			}
			return fakeapi.Fault{}
		})
		n.show("1", syncing, ready())
		for i := range 5 {
			n.show("1", syncing, restarted(statusOf(v1.PodRunning, i%2 == 1, runs()), i+1))
		}
		n.show("2", syncing, ready())
		if len(n.requests("patch", "2")) != 1 {
			t.Error("a pod waits for another one's patch")
		}
		close(hold)
		time.Sleep(time.Second)
		got := n.patches("1")
		if len(got) != 2 || got[1].ContainerStatuses[0].RestartCount != 5 {
			t.Errorf("the patches are %+v; want the first and the last", got)
		}
	})
}

// A server without a field drops it each time, and gets no request each time.
func TestOldServerIsNotAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.create("1")
		n.api.Omit = func(s *v1.PodStatus) { s.ObservedGeneration = 0 }
		n.show("1", syncing, ready())
		for range 3 {
			n.writer.Wake(n.pods.Get("1"))
			time.Sleep(time.Second)
		}
		if got := n.requests("patch", "1"); len(got) != 1 {
			t.Errorf("there were %d patches; want one", len(got))
		}
		n.show("1", syncing, statusOf(v1.PodRunning, false, runs()))
		if got := n.status("1").ContainerStatuses[0].Ready; got {
			t.Error("what the server knows wasn't told any more")
		}
	})
}

// A pod that isn't on the board, or isn't desired any more, costs nothing.
func TestRemovedPodIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.createReady("1")
		n.pods.Remove("1")
		gone := n.boardPod("1", succeeded())
		gone.Desired = false
		n.board.Set(gone)
		time.Sleep(time.Second)
		n.board.Remove("1")
		time.Sleep(time.Minute)
		n.writer.Wake(newPod("1"))
		time.Sleep(time.Minute)
		if got := n.requests("", ""); len(got) != 1 {
			t.Errorf("there were %d requests; want only the one of before", len(got))
		}
	})
}
