package cluster

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/csidriver"
	"github.com/podstream/podstream/test/csidriver/fault"
	"github.com/podstream/podstream/test/rig"
)

const (
	// callTime is what each call of the slow driver takes.
	callTime = 200 * time.Millisecond
	// volumesOfPod is the number of a pod's volumes, and of drivers.
	volumesOfPod = 10
)

// The volumes of a pod of the API server are staged at the same time, and then published at the same time: a pod with ten of them starts
// not much later than one with one.
func TestTenVolumes(t *testing.T) {
	s := newStorageNode(t, "ten", false)
	var handles, claims []string
	for i := range volumesOfPod {
		handles, claims = append(handles, fmt.Sprintf("slow%d", i)), append(claims, fmt.Sprintf("slow-claim-%d", i))
	}
	driver := s.startDriver(t, "slow", false, handles...)
	for i, handle := range handles {
		s.bindClaim(t, fmt.Sprintf("slow-pv-%d", i), claims[i], driver.Options().Name, handle)
	}
	check(t, "ten volumes are staged at the same time, and published", func(t *testing.T) {
		var ids []int
		for _, method := range []string{"NodeStageVolume", "NodePublishVolume"} {
			ids = append(ids, rig.Get(driver.Faults.Add(t.Context(), fault.Fault{Method: method, Action: fault.Hold}))(t))
		}
		pod := s.run(t, "held", claims...)
		for _, id := range ids { // A held call doesn't end before the removal of its fault.
			awaitFault(t, driver, id, volumesOfPod)
			rig.Must(t, driver.Faults.Remove(t.Context(), id))
		}
		s.awaitRunning(t, pod)
		s.end(t, pod)
		s.awaitUnrecorded(t)
	})
	check(t, "a pod with ten volumes starts as one with one", func(t *testing.T) {
		rig.Get(driver.Faults.Add(t.Context(), fault.Fault{Action: fault.Delay, Delay: callTime}))(t)
		took := map[int][]time.Duration{}
		for i := range 5 {
			for _, n := range []int{1, volumesOfPod} {
				pod, start := s.timed(t, fmt.Sprintf("start-%d-%d", i, n), claims[:n]...)
				took[n] = append(took[n], start)
				s.end(t, pod)
				s.awaitUnrecorded(t)
			}
		}
		median := func(n int) time.Duration { return slices.Sorted(slices.Values(took[n]))[len(took[n])/2] }
		one, ten := median(1), median(volumesOfPod)
		t.Logf("pods start in %d ms with a volume and in %d ms with ten: %.2f of it", one.Milliseconds(), ten.Milliseconds(), ten.Seconds()/one.Seconds())
		if ten > 3*one { // BenchmarkCSIVolumes of podbench has the exact bound.
			t.Errorf("a pod with ten volumes starts in %v; with one in %v", ten, one)
		}
	})
	s.judge(t)
}

// awaitFault waits until a driver's fault has acted on that many calls.
func awaitFault(t *testing.T, driver *csidriver.Driver, id, calls int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), control.Bound)
	defer cancel()
	rig.Must(t, driver.Faults.Await(ctx, id, calls))
}

// timed is run. It returns when the pod runs, with the time since its creation.
func (s *storageNode) timed(t *testing.T, name string, claims ...string) (*corev1.Pod, time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), control.Bound)
	defer cancel()
	watch := rig.Get(s.admin.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(),
	}))(t)
	defer watch.Stop()
	began := time.Now()
	pod := s.run(t, name, claims...)
	for event := range watch.ResultChan() {
		if now, ok := event.Object.(*corev1.Pod); ok && now.Status.Phase == corev1.PodRunning {
			return pod, time.Since(began)
		}
	}
	t.Fatalf("the pod doesn't run; podexecd says\n%s", s.podexecd.Tail())
	return nil, 0
}

// end deletes pods, and waits until they are gone.
func (s *storageNode) end(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		remove(t, s.admin, pod.Name)
	}
	for _, pod := range pods {
		s.awaitGone(t, pod)
	}
}
