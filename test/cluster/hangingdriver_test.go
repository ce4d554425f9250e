package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/test/csidriver"
	"github.com/podstream/podstream/test/csidriver/calllog"
	"github.com/podstream/podstream/test/csidriver/fault"
	"github.com/podstream/podstream/test/rig"
)

// hangingDriver is a node with ten drivers, of which the first one hangs.
type hangingDriver struct {
	*storageNode
	// test is the whole test: the drivers end with it.
	test *testing.T
	// claims are those of the others.
	claims []string
	// usual are the lives of the others' pods while none hangs.
	usual []lives
}

// lives is how long some pods took from the first one's creation until all ran, and from the first one's deletion until all were gone.
type lives struct{ start, end time.Duration }

func (l lives) String() string {
	return fmt.Sprintf("start %d ms, end %d ms", l.start.Milliseconds(), l.end.Milliseconds())
}

// hang is how a call of a driver is made that hangs.
type hang struct {
	method string
	// make hangs the method, and has podexecd call it. It returns the pods that use the driver's volume, and the ID of the fault.
	make func(h *hangingDriver, t *testing.T, method, name string) ([]*corev1.Pod, int)
	// gone is set if the pods are gone then: they have been deleted, and don't wait for the call.
	gone bool
}

// hangs are all calls that podexecd makes to a driver's node service.
var hangs = []hang{
	{"NodeStageVolume", (*hangingDriver).hangAtStart, false},
	{"NodePublishVolume", (*hangingDriver).hangAtStart, false},
	{"NodeExpandVolume", (*hangingDriver).hangGrown, false},
	{"NodeGetVolumeStats", (*hangingDriver).hangMeasured, false},
	{"NodeUnpublishVolume", (*hangingDriver).hangAtEnd, false},
	{"NodeUnstageVolume", (*hangingDriver).hangAtEnd, true},
	{"NodeGetInfo", (*hangingDriver).hangRegistered, false},
	{"NodeGetCapabilities", (*hangingDriver).hangRegistered, false},
}

// A driver that hangs for ever delays only the pods with its volumes: of ten drivers one hangs, in each of its calls in turn, and the
// pods of the others start and end in the usual time. Its own pods can be deleted with force, and once the driver answers nothing is left.
func TestHangingDriver(t *testing.T) {
	h := &hangingDriver{storageNode: newStorageNode(t, "hang", false), test: t}
	for i := 1; i < volumesOfPod; i++ {
		name := fmt.Sprintf("other%d", i)
		driver := h.startDriver(t, name, false, name)
		h.bindClaim(t, "pv-"+name, "claim-"+name, driver.Options().Name, name)
		h.claims = append(h.claims, "claim-"+name)
	}
	check(t, "the pods of ten drivers start and end, and none hangs", func(t *testing.T) {
		h.others(t, "warm")
		for i := range 3 {
			h.usual = append(h.usual, h.others(t, fmt.Sprintf("usual-%d", i)))
		}
		t.Logf("nine pods of other drivers usually: %v", h.usual)
	})
	for i, hang := range hangs {
		check(t, "one of ten drivers hangs in "+hang.method+": the pods of the others start and end in the usual time", func(t *testing.T) {
			name := fmt.Sprintf("hang-%d", i)
			pods, id := hang.make(h, t, hang.method, name)
			h.wantUsual(t, name+"-during")
			if hang.gone {
				for _, pod := range pods {
					h.awaitGone(t, pod)
				}
			} else {
				for _, pod := range pods {
					vanish(t, h.admin, pod.Name)
				}
				for _, pod := range pods {
					h.awaitGone(t, pod)
				}
				h.wantUsual(t, name+"-deleted")
			}
			rig.Must(t, h.driver.Faults.Remove(t.Context(), id))
			h.await(t, "nothing is left of the volume that hung", func(context.Context) (bool, string) {
				left := calllog.NothingLeft(rig.Get(calllog.Read(h.driver.Options().Log))(t).Calls)
				dirs, err := filepath.Glob(h.path("kubelet/pods/*"))
				return len(left) == 0 && len(dirs) == 0 && err == nil, fmt.Sprint(left, dirs, err)
			})
			h.awaitUnrecorded(t)
		})
	}
	h.judge(t)
}

// others has a pod of each other driver start and end.
func (h *hangingDriver) others(t *testing.T, name string) (took lives) {
	t.Helper()
	var pods []*corev1.Pod
	began := time.Now()
	for i, claim := range h.claims {
		pods = append(pods, h.run(t, fmt.Sprintf("%s-%d", name, i), claim))
	}
	for _, pod := range pods {
		h.awaitRunning(t, pod)
	}
	took.start = time.Since(began)
	began = time.Now()
	h.end(t, pods...)
	took.end = time.Since(began)
	return took
}

// wantUsual checks that the others' pods start and end as they do while no driver hangs. The fastest time counts, as the machine may be
// busy. A pod that waited for a call would take minutes: the call has two, and a registration ten seconds and more.
func (h *hangingDriver) wantUsual(t *testing.T, name string) {
	t.Helper()
	const ratio = 3
	now, bound := h.others(t, name+"-0"), h.usual[0]
	next := h.others(t, name+"-1")
	now.start, now.end = min(now.start, next.start), min(now.end, next.end)
	for _, l := range h.usual {
		bound.start, bound.end = max(bound.start, l.start), max(bound.end, l.end)
	}
	t.Logf("%s: %v", name, now)
	if now.start > ratio*bound.start || now.end > ratio*bound.end {
		t.Errorf("%s: the pods of other drivers take at least %v; usually at most %v", name, now, bound)
	}
}

// hold has all calls of the method hang.
func (h *hangingDriver) hold(t *testing.T, method string) int {
	t.Helper()
	return rig.Get(h.driver.Faults.Add(t.Context(), fault.Fault{Method: method, Action: fault.Hold}))(t)
}

// hangAtStart hangs while the pod waits for its volume.
func (h *hangingDriver) hangAtStart(t *testing.T, method, name string) ([]*corev1.Pod, int) {
	t.Helper()
	id := h.hold(t, method)
	pod := h.run(t, name)
	awaitFault(t, h.driver, id, 1)
	return []*corev1.Pod{pod}, id
}

// hangGrown is hangAtStart with a volume that has grown.
func (h *hangingDriver) hangGrown(t *testing.T, method, name string) ([]*corev1.Pod, int) {
	t.Helper()
	patch := []byte(`{"spec":{"capacity":{"storage":"2Mi"}}}`)
	rig.Get(h.admin.CoreV1().PersistentVolumes().Patch(t.Context(), h.pv, types.MergePatchType, patch, metav1.PatchOptions{}))(t)
	return h.hangAtStart(t, method, name)
}

// hangMeasured hangs while the pod runs.
func (h *hangingDriver) hangMeasured(t *testing.T, method, name string) ([]*corev1.Pod, int) {
	t.Helper()
	pod := h.run(t, name)
	h.awaitRunning(t, pod)
	id := h.hold(t, method)
	h.podexecd.Kill()
	h.startExec(t) // It measures all volumes after its start.
	awaitFault(t, h.driver, id, 1)
	return []*corev1.Pod{pod}, id
}

// hangAtEnd hangs while the pod, which is deleted, gives its volume back.
func (h *hangingDriver) hangAtEnd(t *testing.T, method, name string) ([]*corev1.Pod, int) {
	t.Helper()
	id := h.hold(t, method)
	pod := h.run(t, name)
	h.awaitRunning(t, pod)
	remove(t, h.admin, pod.Name)
	awaitFault(t, h.driver, id, 1)
	return []*corev1.Pod{pod}, id
}

// hangRegistered starts the driver again, which hangs while it is being registered: a pod has its volume, and another one waits for it.
func (h *hangingDriver) hangRegistered(t *testing.T, method, name string) ([]*corev1.Pod, int) {
	t.Helper()
	has := h.run(t, name+"-has")
	h.awaitRunning(t, has)
	o := h.driver.Options()
	h.driver.Stop()
	o.Faults = []fault.Fault{{Method: method, Action: fault.Hold}}
	driver := rig.Get(csidriver.Start(o))(t)
	h.test.Cleanup(driver.Stop)
	h.drivers[slices.Index(h.drivers, h.driver)], h.driver = driver, driver
	const id = 1 // of the driver's first fault
	awaitFault(t, driver, id, 1)
	return []*corev1.Pod{has, h.run(t, name+"-waits")}, id
}
