package execsvc

import (
	"maps"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/admit"
	"github.com/podstream/podstream/internal/execsvc/observed"
	"github.com/podstream/podstream/internal/execsvc/resize"
)

// doorman is an admission whose workers the test plays.
type doorman struct {
	*admission
	t      *testing.T
	node   admit.Node
	ending map[types.UID]bool
	// woken are the pods that were woken, and kept what is kept for the next life.
	woken map[types.UID]bool
	kept  map[types.UID]resize.Allocation
}

func newDoorman(t *testing.T, cpu string, earlier map[types.UID]resize.Allocation) *doorman {
	d := &doorman{
		t: t, node: admit.Node{Allocatable: amounts(cpu, "8Gi")}, ending: map[types.UID]bool{}, woken: map[types.UID]bool{},
		kept: map[types.UID]resize.Allocation{},
	}
	d.admission = newAdmission(admissionConfig{
		ending: func(uid types.UID) bool { return d.ending[uid] },
		wake:   func(uid types.UID) { d.woken[uid] = true },
		keep: func(uid types.UID, a *resize.Allocation) {
			delete(d.kept, uid)
			if a != nil {
				d.kept[uid] = *a
			}
		},
	}, earlier)
	return d
}

func (d *doorman) ask(pod *v1.Pod) (resize.Decision, verdict) {
	return d.check(pod, d.node, &observed.Pod{}, nil)
}

// wantIn has the pod ask, and checks that it has room.
func (d *doorman) wantIn(pod *v1.Pod) resize.Decision {
	d.t.Helper()
	got, v := d.ask(pod)
	if len(v.Refused) > 0 || len(v.awaited) > 0 {
		d.t.Fatalf("pod %s: %+v; want it in", pod.UID, v)
	}
	return got
}

// wantOut has the pod ask, and checks that there is no room for it.
func (d *doorman) wantOut(pod *v1.Pod) {
	d.t.Helper()
	if _, v := d.ask(pod); !v.MayPass() {
		d.t.Fatalf("pod %s: %+v; want no room", pod.UID, v)
	}
}

// wantReserved has the pod ask, and checks whom it waits for, and who has to be told to end for that.
func (d *doorman) wantReserved(pod *v1.Pod, awaited, told []types.UID) {
	d.t.Helper()
	_, v := d.ask(pod)
	var got []types.UID
	for _, other := range v.awaited {
		got = append(got, other.UID)
	}
	slices.Sort(got)
	if len(v.Refused) > 0 || !slices.Equal(got, awaited) || !slices.Equal(v.Preempt, told) {
		d.t.Fatalf("pod %s: refused for %v, waits for %v, of which %v are to be told; want %v and %v", pod.UID, v.Refused, got, v.Preempt, awaited, told)
	}
}

// ends plays that the pod ends, from its beginning to its end.
func (d *doorman) ends(uid types.UID) {
	d.left(uid)
	delete(d.ending, uid)
}

func named(uids ...types.UID) []types.UID { return uids }

// aged is the pod as one that was created so long after the others.
func aged(pod *v1.Pod, after time.Duration) *v1.Pod {
	pod.CreationTimestamp = metav1.NewTime(time.Unix(1_000_000_000, 0).Add(after))
	return pod
}

// Pods that come together, and pods for which room comes free, have it in their order, whoever's worker asks first.
func TestTurns(t *testing.T) {
	d := newDoorman(t, "2", nil)
	young, old := aged(sized("a", 1, "2", "1Mi"), time.Hour), aged(sized("b", 1, "2", "1Mi"), 0)
	critical := static(sized("c", 0, "2", "1Mi"))
	for _, pod := range []*v1.Pod{young, old, critical} {
		d.expect(pod, nil)
	}
	d.wantOut(young)
	d.wantIn(critical)
	d.wantOut(old)
	d.ends("c")
	if !d.woken["a"] || !d.woken["b"] {
		t.Errorf("%v were woken; want both that wait", d.woken)
	}
	d.wantOut(young)
	d.wantIn(old)
	d.ends("b")
	d.wantIn(young)
	if len(d.waiting) > 0 {
		t.Errorf("%v wait", slices.Collect(maps.Keys(d.waiting)))
	}
	// One that is being ended has no turn.
	d.ends("a")
	d.ending["b"] = true
	d.expect(old, nil)
	d.wantIn(young)
}

// Room that comes free is for resizes first, the most important one before the others, and a worker that didn't decide on its pod's resize
// hears of it all the same.
func TestTurnsOfResizes(t *testing.T) {
	d := newDoorman(t, "6", nil)
	more := func(uid types.UID, priority int32) *v1.Pod {
		pod := sized(uid, 2, "3", "1Mi")
		pod.Spec.Priority = &priority
		return pod
	}
	for _, uid := range named("a", "b") {
		d.wantIn(sized(uid, 1, "1", "1Mi"))
	}
	d.wantIn(sized("x", 1, "4", "1Mi"))
	waiting := sized("o", 1, "2", "1Mi")
	d.wantOut(waiting)
	for _, pod := range []*v1.Pod{more("a", 1), more("b", 2)} {
		if got := d.wantIn(pod); got.Pending != v1.PodReasonDeferred {
			t.Fatalf("%+v; want it deferred", got)
		}
	}
	// It asks for less, and by that makes room for one of them.
	clear(d.woken)
	if got := d.wantIn(sized("x", 2, "2", "1Mi")); !got.Begun || !d.woken["a"] || !d.woken["b"] || !d.woken["o"] {
		t.Errorf("%+v, woken %v; want it begun, and the others woken", got, d.woken)
	}
	d.wantOut(waiting)
	if got := d.wantIn(more("a", 1)); got.Begun || got.Pending != v1.PodReasonDeferred {
		t.Errorf("%+v; want it to wait for the more important one", got)
	}
	if kept := d.kept["b"]; !kept.Resizing || kept.Generation != 2 {
		t.Errorf("%+v is kept; want the resize, which hasn't been carried out", kept)
	}
	if shown := d.allocated(more("b", 2)); !resize.Same(shown, sized("b", 1, "1", "1Mi")) {
		t.Errorf("its status has %v, of which its worker knows nothing", shown.Spec.Containers[0].Resources)
	}
	got, v := d.ask(more("b", 2))
	if !got.Begun || !v.resizing {
		t.Errorf("%+v, %+v; want it begun", got, v)
	}
	d.resized("b")
	if got, v := d.ask(more("b", 2)); got.Begun || v.resizing || d.kept["b"].Resizing {
		t.Errorf("%+v, %+v, kept %+v; want it done", got, v, d.kept["b"])
	}
}

// What a pod was allocated in an earlier life is its own before anybody else has a turn, and stays it until its resize is decided on.
func TestEarlierAllocations(t *testing.T) {
	allocated := func(pod *v1.Pod) resize.Allocation { return resize.AllocationOf(pod) }
	d := newDoorman(t, "4", map[types.UID]resize.Allocation{
		"a": allocated(sized("a", 1, "2", "1Mi")), "b": allocated(sized("b", 1, "1", "1Mi")), "gone": allocated(sized("gone", 1, "1", "1Mi")),
	})
	deferred, infeasible := sized("a", 2, "4", "1Mi"), sized("b", 2, "9", "1Mi")
	d.expect(deferred, nil)
	d.expect(infeasible, nil)
	d.wantOut(sized("new", 1, "2", "1Mi"))
	for _, want := range []struct {
		pod     *v1.Pod
		pending string
		cpu     string
	}{{deferred, v1.PodReasonDeferred, "2"}, {infeasible, v1.PodReasonInfeasible, "1"}} {
		if got := d.wantIn(want.pod); got.Pending != want.pending || !resize.Same(got.Pod, sized("", 1, want.cpu, "1Mi")) {
			t.Errorf("pod %s is %q with %v; want %+v", want.pod.UID, got.Pending, got.Pod.Spec.Containers[0].Resources, want)
		}
	}
	d.left("gone")
	if slices.Contains(slices.Collect(maps.Keys(d.kept)), "gone") || len(d.earlier) > 0 {
		t.Errorf("%v is kept, and %v of an earlier life; want nothing of the one that is gone", d.kept, d.earlier)
	}
	d.left("b")
	if _, ok := d.kept["b"]; ok {
		t.Error("what a pod had that has left is kept")
	}
}

// A pod that is being ended has no turn, though it waited for one.
func TestNoTurnForWhatEnds(t *testing.T) {
	d := newDoorman(t, "4", nil)
	d.wantIn(sized("x", 1, "2", "1Mi"))
	d.wantIn(sized("r", 1, "1", "1Mi"))
	resized, critical := sized("r", 2, "3", "1Mi"), static(sized("c", 0, "4", "1Mi"))
	if got := d.wantIn(resized); got.Pending != v1.PodReasonDeferred {
		t.Fatalf("%+v; want it deferred", got)
	}
	d.expect(critical, nil)
	d.ending["r"], d.ending["c"] = true, true
	d.ends("x")
	d.wantIn(sized("new", 1, "3", "1Mi"))
	if got := d.allocated(resized); !resize.Same(got, sized("r", 1, "1", "1Mi")) || len(d.reserved) > 0 {
		t.Errorf("what ends is allocated %v, and %v are reserved", got.Spec.Containers[0].Resources, d.reserved)
	}
}
