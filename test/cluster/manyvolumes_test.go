package cluster

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/test/csidriver"
	"github.com/podstream/podstream/test/csidriver/calllog"
	"github.com/podstream/podstream/test/csidriver/fault"
	"github.com/podstream/podstream/test/rig"
)

const (
	// callTime is what each call of the slow driver takes.
	callTime = 200 * time.Millisecond
	// volumesOfPod is the number of a pod's volumes, and of drivers.
	volumesOfPod = 10
)

// The volumes of a pod are set up side by side: ten of them take about as long as one.
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
	for _, method := range []string{"NodeStageVolume", "NodePublishVolume"} {
		rig.Get(driver.Faults.Add(t.Context(), fault.Fault{Method: method, Action: fault.Delay, Delay: callTime}))(t)
	}
	check(t, "ten volumes are set up side by side", func(t *testing.T) {
		pod := s.run(t, "ten", claims...)
		s.awaitRunning(t, pod)
		calls := calllog.Succeeded(rig.Get(calllog.Read(driver.Options().Log))(t).Of("NodeStageVolume", "NodePublishVolume"))
		if len(calls) != 2*volumesOfPod {
			t.Fatalf("the driver's calls are %v", calls)
		}
		first, last := calls[0].Time, calls[0].EndTime
		var one time.Duration
		for _, c := range calls {
			if c.Time.Before(first) {
				first = c.Time
			}
			if c.EndTime.After(last) {
				last = c.EndTime
			}
			one += c.EndTime.Sub(c.Time) / volumesOfPod
		}
		all := last.Sub(first)
		t.Logf("one volume's stage and publish takes %v on average, and those of ten volumes %v: %.2f of it",
			one.Round(time.Millisecond), all.Round(time.Millisecond), all.Seconds()/one.Seconds())
		if all > 3*one {
			t.Errorf("ten volumes take %v, one takes %v", all, one)
		}
		remove(t, s.admin, pod.Name)
		s.awaitGone(t, pod)
	})
	s.awaitUnrecorded(t)
	s.judge(t)
}

// A driver that hangs for ever delays only the pods with its volumes: of ten drivers one hangs, in each of its calls in turn, and the
// pods of the others start and end. The pod that waits can be deleted with force, and once the driver answers nothing is left.
func TestHangingDriver(t *testing.T) {
	s := newStorageNode(t, "hang", false)
	drivers, claims := []*csidriver.Driver{s.driver}, []string{s.claim}
	for i := 1; i < volumesOfPod; i++ {
		name := fmt.Sprintf("other%d", i)
		driver := s.startDriver(t, name, false, name)
		s.bindClaim(t, "pv-"+name, "claim-"+name, driver.Options().Name, name)
		drivers, claims = append(drivers, driver), append(claims, "claim-"+name)
	}
	start := func(t *testing.T, phase string) (pods []*corev1.Pod) {
		for i := 1; i < volumesOfPod; i++ {
			pods = append(pods, s.run(t, fmt.Sprintf("%s-%d", phase, i), claims[i]))
		}
		for _, pod := range pods {
			s.awaitRunning(t, pod)
		}
		return pods
	}
	end := func(t *testing.T, pods []*corev1.Pod) {
		for _, pod := range pods {
			remove(t, s.admin, pod.Name)
		}
		for _, pod := range pods {
			s.awaitGone(t, pod)
		}
	}
	check(t, "the pods of ten drivers start and end, and none hangs", func(t *testing.T) { end(t, start(t, "before")) })
	for _, method := range []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"} {
		check(t, "one of ten drivers hangs in "+method+": the pods of the others start and end", func(t *testing.T) {
			name := "hangs-" + map[string]string{"NodeStageVolume": "stage", "NodePublishVolume": "publish", "NodeUnpublishVolume": "unpublish",
				"NodeUnstageVolume": "unstage"}[method]
			id := rig.Get(s.driver.Faults.Add(t.Context(), fault.Fault{Method: method, Action: fault.Hold}))(t)
			hanging := s.run(t, name)
			if slices.Contains([]string{"NodeUnpublishVolume", "NodeUnstageVolume"}, method) {
				s.awaitRunning(t, hanging)
				remove(t, s.admin, hanging.Name)
			}
			rig.Must(t, s.driver.Faults.Await(t.Context(), id, 1))
			end(t, start(t, name))
			if method != "NodeUnstageVolume" { // then the pod is gone
				vanish(t, s.admin, hanging.Name)
			}
			s.awaitGone(t, hanging)
			end(t, start(t, name+"-2"))
			rig.Must(t, s.driver.Faults.Remove(t.Context(), id))
			s.await(t, "the volume that hung is unstaged", func(ctx context.Context) (bool, string) {
				calls := rig.Get(calllog.Read(s.driver.Options().Log))(t).Calls
				left := calllog.NothingLeft(calls)
				return len(left) == 0, fmt.Sprint(left)
			})
		})
	}
	s.awaitUnrecorded(t)
	s.judge(t)
}
