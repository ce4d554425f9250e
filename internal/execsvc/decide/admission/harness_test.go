package admission

import (
	"maps"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/decide/resize"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podtest"
)

// queueTest is a Queue, and the state that an Agent would have.
type queueTest struct {
	*Queue
	t        *testing.T
	snapshot Snapshot
	// woken and stored are the changes that were taken.
	woken  map[types.UID]bool
	stored map[types.UID]resize.Allocation
}

// newQueue returns the Queue of a node with that much CPU.
func newQueue(t *testing.T, cpu string, restored map[types.UID]resize.Allocation) *queueTest {
	q := &queueTest{
		Queue: New(Config{Restored: restored}), t: t, snapshot: Snapshot{Terminating: map[types.UID]bool{}},
		woken: map[types.UID]bool{}, stored: map[types.UID]resize.Allocation{},
	}
	q.snapshot.Node.Allocatable = podtest.Amounts(cpu, "8Gi")
	return q
}

// ask checks a pod of which nothing runs, and takes the changes.
func (q *queueTest) ask(pod *v1.Pod) (resize.Decision, Verdict) {
	d, v := q.Check(pod, q.snapshot, false, nil)
	q.take()
	return d, v
}

// take takes the changes.
func (q *queueTest) take() {
	changes := q.Take()
	maps.Copy(q.woken, changes.Wake)
	for uid, a := range changes.Allocations {
		delete(q.stored, uid)
		if a != nil {
			q.stored[uid] = *a
		}
	}
}

// wantIn checks the pod, which must be admitted.
func (q *queueTest) wantIn(pod *v1.Pod) resize.Decision {
	q.t.Helper()
	got, v := q.ask(pod)
	if len(v.Rejected) > 0 || len(v.Awaited) > 0 {
		q.t.Fatalf("pod %s: %+v; want it admitted", pod.UID, v)
	}
	return got
}

// wantOut checks the pod, for which the node must have no capacity.
func (q *queueTest) wantOut(pod *v1.Pod) {
	q.t.Helper()
	if _, v := q.ask(pod); !v.Transient() {
		q.t.Fatalf("pod %s: %+v; want no capacity for it", pod.UID, v)
	}
}

// wantReserved checks the pod, which must wait for the awaited pods, of which the caller must end the victims.
func (q *queueTest) wantReserved(pod *v1.Pod, awaited, victims []types.UID) {
	q.t.Helper()
	_, v := q.ask(pod)
	var got []types.UID
	for _, other := range v.Awaited {
		got = append(got, other.UID)
	}
	slices.Sort(got)
	if len(v.Rejected) > 0 || !slices.Equal(got, awaited) || !slices.Equal(v.Preempt, victims) {
		q.t.Fatalf("pod %s: rejected for %v, waits for %v, victims %v; want %v and %v", pod.UID, v.Rejected, got, v.Preempt, awaited, victims)
	}
}

// ends ends the pod.
func (q *queueTest) ends(uid types.UID) {
	q.Release(uid)
	delete(q.snapshot.Terminating, uid)
	q.take()
}

func named(uids ...types.UID) []types.UID { return uids }

// sized returns a pod of an API server with these requests and limits.
func sized(uid types.UID, generation int64, cpu, memory string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			UID: uid, Namespace: "default", Name: "pod-" + string(uid), Generation: generation,
			Annotations: map[string]string{podmeta.SourceAnnotation: "api"},
		},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "main", Resources: v1.ResourceRequirements{Requests: podtest.Amounts(cpu, memory), Limits: podtest.Amounts(cpu, memory)},
		}}},
	}
}

// static makes the pod one of a file, which is critical.
func static(pod *v1.Pod) *v1.Pod {
	pod.Annotations[podmeta.SourceAnnotation], pod.Generation = "file", 0
	return pod
}

// aged sets when the pod was created: that long after the others.
func aged(pod *v1.Pod, after time.Duration) *v1.Pod {
	pod.CreationTimestamp = metav1.NewTime(time.Unix(1_000_000_000, 0).Add(after))
	return pod
}

// withCephFS returns a copy of the pod that needs a volume which the node doesn't provide.
func withCephFS(pod *v1.Pod) *v1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
		CephFS: &v1.CephFSVolumeSource{Monitors: []string{"ceph.example.com"}},
	}}}
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
	return pod
}

// ofAnotherOS returns a copy of the pod that is rejected for its label.
func ofAnotherOS(pod *v1.Pod) *v1.Pod {
	pod = pod.DeepCopy()
	pod.Labels = map[string]string{v1.LabelOSStable: "windows"}
	return pod
}
