package cluster

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// maxLives is the number of pods in whose lives all planned deaths must have happened.
const maxLives = 12

// strike is a death at a random moment.
type strike struct {
	at     time.Time
	victim victim
}

// live has pods come and go until enough has died: first at the planned points, then at random moments.
func (m *mortal) live(t *testing.T) {
	m.arm(t)
	for lives := 0; len(m.planned()) > 0; lives++ {
		if lives == maxLives {
			t.Fatalf("after %d pods, there was no death at %v", lives, m.planned())
		}
		m.life(t, false)
	}
	for m.count.left.Load() > 0 {
		m.life(t, true)
	}
	m.spare(t)
}

// arm kills what has planned deaths: its next process meets the first one.
func (m *mortal) arm(t *testing.T) {
	t.Helper()
	if len(m.points) > 0 {
		m.kill(t, victimAgent)
	}
	for _, d := range m.mortals {
		if len(d.ends) > 0 {
			m.kill(t, d.victim)
		}
	}
}

// life is the life of a pod, with random deaths too.
func (m *mortal) life(t *testing.T, random bool) {
	t.Helper()
	pod := m.next(t)
	if random {
		m.strikeSoon(m.chance.IntN(3), 2*time.Second)
		m.planAny()
	}
	if random && m.chance.IntN(3) == 0 {
		// It is deleted at any time before it runs, or soon after.
		m.pass(t, time.Duration(m.chance.IntN(1500))*time.Millisecond)
	} else {
		m.until(t, "the pod runs", m.runs(pod))
		inside := m.inside(t, pod)
		m.republish(t)
		for n := m.chance.IntN(4); random && n > 0; n-- {
			m.kill(t, m.anyVictim())
			inside.check(t)
			m.pass(t, time.Duration(m.chance.IntN(300))*time.Millisecond)
		}
		inside.check(t)
	}
	remove(t, m.admin, pod.Name)
	if random {
		m.strikeSoon(m.chance.IntN(3), 1500*time.Millisecond)
	}
	m.until(t, "the pod is gone, and its volumes are unstaged", m.ended(pod))
	m.checkUnused(t, pod)
}

// strikeSoon has n victims die within a time.
func (m *mortal) strikeSoon(n int, within time.Duration) {
	for range n {
		at := time.Now().Add(time.Duration(m.chance.Int64N(int64(within))))
		m.strikes = append(m.strikes, strike{at, m.anyVictim()})
	}
}

// planAny plans a death at a point for each kind of victim, unless it has one.
func (m *mortal) planAny() {
	all := m.all
	pick := func(v victim) ending {
		for {
			if e := all[m.chance.IntN(len(all))]; e.victim == v {
				return e
			}
		}
	}
	if m.armed == "" && len(m.points) == 0 && m.chance.IntN(2) == 0 {
		m.plan(pick(victimAgent))
	}
	for _, d := range m.mortals {
		if d.armed == nil && len(d.ends) == 0 && m.chance.IntN(2) == 0 {
			m.plan(pick(d.victim))
		}
	}
	if m.cri != nil {
		if n, _ := m.cri.pending(); n == 0 && m.chance.IntN(2) == 0 {
			m.plan(pick(victimRuntime))
		}
	}
}

// republish has podexecd die at the next points of a repeated NodePublishVolume: it repeats the call at the first sync after its start.
func (m *mortal) republish(t *testing.T) {
	t.Helper()
	is := func() bool {
		next := m.armed
		if next == "" && len(m.points) > 0 {
			next = m.points[0]
		}
		return strings.HasPrefix(string(next), "storage/republish/")
	}
	if !is() {
		return
	}
	m.kill(t, victimAgent)
	m.until(t, "podexecd has died at each point of a repeated NodePublishVolume", func(context.Context) (bool, string) {
		return !is(), fmt.Sprint(m.planned())
	})
}

// until waits until good is true. Meanwhile what dies is started again, and strikes happen.
func (m *mortal) until(t *testing.T, what string, good func(context.Context) (bool, string)) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit, next := time.Now().Add(control.Bound), time.Now()
	for {
		if m.revive(t) || m.strike(t) {
			limit = time.Now().Add(control.Bound)
		}
		if time.Now().After(next) {
			is, now := good(t.Context())
			if is {
				return
			}
			if time.Now().After(limit) {
				t.Fatalf("wait until %s: %s; yet to die: %v; podexecd says\n%s", what, now, m.planned(), m.podexecd.Tail())
			}
			next = time.Now().Add(control.PollInterval)
		}
		<-tick.C
	}
}

// pass lets a time pass.
func (m *mortal) pass(t *testing.T, d time.Duration) {
	t.Helper()
	end := time.Now().Add(d)
	m.until(t, "the time has passed", func(context.Context) (bool, string) { return time.Now().After(end), "" })
}

// strike kills the victims whose time has come.
func (m *mortal) strike(t *testing.T) (did bool) {
	t.Helper()
	var later []strike
	now := time.Now()
	for _, s := range m.strikes {
		if s.at.After(now) {
			later = append(later, s)
			continue
		}
		m.kill(t, s.victim)
		did = true
	}
	m.strikes = later
	return did
}

// next creates a pod with all volumes, one of which has grown.
func (m *mortal) next(t *testing.T) *corev1.Pod {
	t.Helper()
	m.pods++
	grown := resource.NewQuantity(1<<20+int64(m.pods)<<12, resource.BinarySI)
	patch := fmt.Appendf(nil, `{"spec":{"capacity":{"storage":%q}}}`, grown)
	rig.Get(m.admin.CoreV1().PersistentVolumes().Patch(t.Context(), m.volumes[0].pv, types.MergePatchType, patch, metav1.PatchOptions{}))(t)
	if m.pods%5 == 0 {
		m.toggleStatic(t)
	}
	return m.create(t, m.admin, fmt.Sprintf("%s-%d", m.name, m.pods), func(pod *corev1.Pod) {
		c := &pod.Spec.Containers[0]
		c.Image, c.Args = m.image, []string{"sleep"}
		pod.Spec.TerminationGracePeriodSeconds = new(int64(1))
		for _, v := range m.volumes {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: v.name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v.pv},
			}})
			if v.block {
				c.VolumeDevices = append(c.VolumeDevices, corev1.VolumeDevice{Name: v.name, DevicePath: "/dev/" + v.name})
			} else {
				c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: v.name, MountPath: "/" + v.name})
			}
		}
	})
}

// runs and ended are what until waits for.
func (m *mortal) runs(pod *corev1.Pod) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		got, err := m.admin.CoreV1().Pods(namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return got.Status.Phase == corev1.PodRunning, fmt.Sprintf("%+v", got.Status)
	}
}

func (m *mortal) ended(pod *corev1.Pod) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		if _, err := m.admin.CoreV1().Pods(namespace).Get(ctx, pod.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return false, fmt.Sprintf("the pod is there, %v", err)
		}
		left, err := m.records()
		return err == nil && len(left) == 0, fmt.Sprint(left, err)
	}
}

// records returns podexecd's records, but for those of claims of static pods.
func (m *mortal) records() (left []string, err error) {
	entries, err := os.ReadDir(m.path("exec/volumes"))
	for _, e := range entries {
		text, readErr := os.ReadFile(m.path("exec/volumes/" + e.Name()))
		if readErr != nil && !os.IsNotExist(readErr) {
			return nil, readErr
		}
		if readErr == nil && !strings.Contains(string(text), "podstream.io/directory") {
			left = append(left, e.Name())
		}
	}
	return left, err
}
