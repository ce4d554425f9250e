package status

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
)

func keptPod(uid types.UID) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "p", UID: uid, Annotations: map[string]string{"kubernetes.io/config.source": "file"}}}
}

func inPhase(p v1.PodPhase) func(*v1.PodStatus) v1.PodStatus {
	return func(*v1.PodStatus) v1.PodStatus { return v1.PodStatus{Phase: p} }
}

func TestKeeper(t *testing.T) {
	clock := testclock.NewFakePassiveClock(t0)
	var reported []types.UID
	var k *Keeper
	k = NewKeeper(Config{Clock: clock, Changed: func(uid types.UID) {
		if _, ok := k.Get(uid); !ok {
			t.Error("the status isn't there yet when its change is told")
		}
		reported = append(reported, uid)
	}})
	if _, ok := k.Get("u1"); ok {
		t.Error("something is kept before anything was set")
	}
	first, changed := k.Update(keptPod("u1"), func(previous *v1.PodStatus) v1.PodStatus {
		if previous != nil {
			t.Errorf("there was %v before anything was set", previous)
		}
		return v1.PodStatus{Phase: v1.PodPending}
	})
	if !changed || first.Phase != v1.PodPending {
		t.Errorf("the first status is %v, changed %v", first, changed)
	}
	want := Kept{UID: "u1", Namespace: "default", Name: "p", Source: "file", Changed: t0, Status: first}
	if got, _ := k.Get("u1"); !cmp.Equal(want, got) {
		t.Errorf("kept (-want +got):\n%s", cmp.Diff(want, got))
	}

	later := t0.Add(time.Minute)
	clock.SetTime(later)
	if again, changed := k.Update(keptPod("u1"), inPhase(v1.PodPending)); changed || again != first {
		t.Errorf("an equal status: %v, changed %v; want the one before", again, changed)
	}
	if got, _ := k.Get("u1"); !got.Changed.Equal(t0) {
		t.Errorf("an equal status moved the time of change to %v", got.Changed)
	}
	if _, changed := k.Update(keptPod("u1"), func(previous *v1.PodStatus) v1.PodStatus {
		if previous != first {
			t.Errorf("the status before is %v; want the first one", previous)
		}
		return v1.PodStatus{Phase: v1.PodRunning}
	}); !changed {
		t.Error("another phase is no change")
	}
	if got, _ := k.Get("u1"); !got.Changed.Equal(later) || got.Status.Phase != v1.PodRunning {
		t.Errorf("kept %s of %v", got.Status.Phase, got.Changed)
	}

	k.Update(keptPod("u2"), inPhase(v1.PodPending))
	uids := k.UIDs()
	if slices.Sort(uids); !slices.Equal(uids, []types.UID{"u1", "u2"}) {
		t.Errorf("UIDs %v", uids)
	}
	if want := []types.UID{"u1", "u1", "u2"}; !slices.Equal(reported, want) {
		t.Errorf("changes told of %v, want %v", reported, want)
	}
	k.Delete("u1")
	k.Delete("u1")
	if _, ok := k.Get("u1"); ok || len(k.UIDs()) != 1 {
		t.Error("a deleted pod is still there")
	}
}

// After a restart a status continues, and that isn't a change.
func TestKeeperRestores(t *testing.T) {
	k := NewKeeper(Config{Clock: testclock.NewFakePassiveClock(t0), Changed: func(uid types.UID) { t.Errorf("%s changed", uid) }})
	stored := &v1.PodStatus{Phase: v1.PodRunning}
	k.Restore(keptPod("u1"), stored, t0.Add(-time.Hour))
	if _, changed := k.Update(keptPod("u1"), func(previous *v1.PodStatus) v1.PodStatus { return *previous.DeepCopy() }); changed {
		t.Error("what was stored is a change")
	}
	if got, _ := k.Get("u1"); got.Status != stored || !got.Changed.Equal(t0.Add(-time.Hour)) {
		t.Errorf("kept %+v", got)
	}
}

// The pod's source may change under its UID.
func TestKeeperFollowsThePod(t *testing.T) {
	k := NewKeeper(Config{})
	k.Update(keptPod("u1"), inPhase(v1.PodPending))
	moved := keptPod("u1")
	moved.Annotations = map[string]string{"kubernetes.io/config.source": "api"}
	k.Update(moved, inPhase(v1.PodPending))
	if got, _ := k.Get("u1"); got.Source != "api" {
		t.Errorf("source %q", got.Source)
	}
}

// The worker and the loop may both update a pod's status: each starts with the other's result.
func TestKeeperUpdatesOneAfterTheOther(t *testing.T) {
	k := NewKeeper(Config{})
	const writers, times = 4, 50
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range times {
				k.Update(keptPod("u1"), func(previous *v1.PodStatus) v1.PodStatus {
					next := v1.PodStatus{}
					if previous != nil {
						next.ObservedGeneration = previous.ObservedGeneration
					}
					next.ObservedGeneration++
					return next
				})
			}
		})
	}
	wg.Wait()
	if got, _ := k.Get("u1"); got.Status.ObservedGeneration != writers*times {
		t.Errorf("%d updates count, want %d", got.Status.ObservedGeneration, writers*times)
	}
}
