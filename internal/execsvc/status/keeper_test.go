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

func TestKeeper(t *testing.T) {
	clock := testclock.NewFakePassiveClock(t0)
	k := NewKeeper()
	k.clock = clock
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "p", UID: "u1", Annotations: map[string]string{"kubernetes.io/config.source": "file"}}}
	if _, ok := k.Get("u1"); ok {
		t.Error("something is kept before anything was set")
	}
	pending := &v1.PodStatus{Phase: v1.PodPending}
	if !k.Set(pod, pending) {
		t.Error("the first status is no change")
	}
	want := Kept{UID: "u1", Namespace: "default", Name: "p", Source: "file", Changed: t0, Status: pending}
	if got, _ := k.Get("u1"); !cmp.Equal(want, got) {
		t.Errorf("kept (-want +got):\n%s", cmp.Diff(want, got))
	}

	later := t0.Add(time.Minute)
	clock.SetTime(later)
	if k.Set(pod, pending.DeepCopy()) {
		t.Error("an equal status is a change")
	}
	if got, _ := k.Get("u1"); !got.Changed.Equal(t0) {
		t.Errorf("an equal status moved the time of change to %v", got.Changed)
	}
	if !k.Set(pod, &v1.PodStatus{Phase: v1.PodRunning}) {
		t.Error("another phase is no change")
	}
	if got, _ := k.Get("u1"); !got.Changed.Equal(later) || got.Status.Phase != v1.PodRunning {
		t.Errorf("kept %s of %v", got.Status.Phase, got.Changed)
	}

	other := pod.DeepCopy()
	other.UID = "u2"
	k.Set(other, pending)
	uids := k.UIDs()
	if slices.Sort(uids); !slices.Equal(uids, []types.UID{"u1", "u2"}) {
		t.Errorf("UIDs %v", uids)
	}
	k.Delete("u1")
	k.Delete("u1")
	if _, ok := k.Get("u1"); ok || len(k.UIDs()) != 1 {
		t.Error("a deleted pod is still there")
	}
}

// TestKeeperIsSharedSafely means something with -race only.
func TestKeeperIsSharedSafely(t *testing.T) {
	k := NewKeeper()
	var group sync.WaitGroup
	for i := range 4 {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(string(rune('a' + i)))}}
		group.Go(func() {
			for n := range int64(100) {
				k.Set(pod, &v1.PodStatus{ObservedGeneration: n})
				k.Get("a")
				k.UIDs()
			}
		})
	}
	group.Wait()
	for _, uid := range k.UIDs() {
		if kept, _ := k.Get(uid); kept.Status.ObservedGeneration != 99 {
			t.Errorf("%s has status %d, want the last one set", kept.UID, kept.Status.ObservedGeneration)
		}
	}
}
