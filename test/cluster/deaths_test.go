package cluster

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/cluster/apivolumes"
	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/csidriver"
	"github.com/podstream/podstream/test/rig"
)

// deaths is the number of deaths at random moments in TestVolumeDeaths, after one at each point.
var deaths = flag.Int("deaths", 12, "the `number` of deaths at random moments in TestVolumeDeaths")

// deathSeed is the seed of TestVolumeDeaths.
var deathSeed = flag.Uint64("deaths-seed", 0, "the `seed` of TestVolumeDeaths; 0: a random one")

// unreached are the points that a pod doesn't pass whose volumes are neither published again nor resized.
var unreached = []string{"storage/republish/", "storage/expand/", "storage/save/"}

// foreignPods are the UIDs of pods of another agent: one has a volume that is mounted, and one a directory with a file.
var foreignPods = []string{"neighbour", "lookalike"}

// mortal is a node whose podexecd and driver die again and again.
type mortal struct {
	*storageNode
	chance *mathrand.Rand
	claims []string
	// canaries are files that nothing may change, with their content.
	canaries map[string]string
	died     map[string]int
	pods     int
}

// podexecd is killed at each point of an operation on a volume. Then it, or the CSI driver, is killed at random moments. Meanwhile pods
// with volumes that must be attached come and go. The judges are the driver's log, the mount table, and canaries in the volumes, in the
// mount of another agent, and in a directory that only looks like a volume: podexecd's own records don't count.
func TestVolumeDeaths(t *testing.T) {
	s := newStorageNode(t, "deaths", true, "-tags", "failpoints")
	seed := *deathSeed
	if seed == 0 {
		seed = mathrand.Uint64N(1 << 32)
	}
	t.Logf("seed %d", seed)
	m := &mortal{storageNode: s, chance: mathrand.New(mathrand.NewPCG(seed, 0)), canaries: map[string]string{}, died: map[string]int{}}
	m.prepare(t)
	check(t, "podexecd dies at each point of an operation on a volume", func(t *testing.T) {
		for _, point := range failpoint.StoragePoints() {
			known := slices.ContainsFunc(unreached, func(prefix string) bool { return strings.HasPrefix(string(point), prefix) })
			if died := m.dieAt(t, point, !known); died == known {
				t.Errorf("podexecd died at %s: %v", point, died)
			}
			if t.Failed() {
				return
			}
		}
	})
	check(t, fmt.Sprintf("podexecd or the driver dies at %d random moments", *deaths), func(t *testing.T) {
		for range *deaths {
			if m.dieSometime(t); t.Failed() {
				return
			}
		}
	})
	s.awaitUnrecorded(t)
	m.awaitCleanUp(t)
	t.Logf("the deaths: %v; %d pods", m.died, m.pods)
	m.unmountNeighbour(t)
	s.judge(t)
}

// prepare makes the claims, the canaries and the neighbour's mount. Volumes are attached for the whole test.
func (m *mortal) prepare(t *testing.T) {
	t.Helper()
	handles := []string{"v0", "v1", "v2"}
	driver := m.startDriver(t, "mortal", true, handles...)
	for i, handle := range handles {
		pv, claim := fmt.Sprintf("mortal-pv-%d", i), fmt.Sprintf("mortal-claim-%d", i)
		m.bindClaim(t, pv, claim, driver.Options().Name, handle)
		m.claims = append(m.claims, claim)
		m.attach(t, apivolumes.Attachment{Driver: driver.Options().Name, Handle: handle}, pv)
	}
	for _, dir := range rig.Get(filepath.Glob(filepath.Join(driver.Options().Dir, "data", "*")))(t) {
		m.canary(t, dir)
	}
	for _, uid := range foreignPods {
		dir := m.foreign(uid)
		rig.Must(t, os.MkdirAll(dir, 0o750))
		if uid == "neighbour" {
			rig.Must(t, unix.Mount("neighbour", dir, "tmpfs", 0, "size=64k"))
			t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
		}
		m.canary(t, dir)
	}
}

// foreign is the directory of a volume of which podexecd has no record.
func (m *mortal) foreign(uid string) string {
	return filepath.Join(kubeletdir.PodsDir(m.path("kubelet")), uid, "volumes", "kubernetes.io~csi", "foreign", "mount")
}

func (m *mortal) canary(t *testing.T, dir string) {
	t.Helper()
	path, text := filepath.Join(dir, "canary"), rand.Text()
	rig.Must(t, os.WriteFile(path, []byte(text), 0o600))
	m.canaries[path] = text
}

// checkCanaries checks all canaries.
func (m *mortal) checkCanaries(t *testing.T) {
	t.Helper()
	for path, text := range m.canaries {
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("the canary %s has %q, %v; want %q", path, got, err, text)
		}
	}
}

// awaitCleanUp waits until podexecd has tried to remove the directories of which it has no record, or has removed something there.
func (m *mortal) awaitCleanUp(t *testing.T) {
	t.Helper()
	m.await(t, "podexecd has tried to remove the directories of pods that aren't its own", func(context.Context) (bool, string) {
		log := string(rig.Get(os.ReadFile(m.path("exec.log")))(t))
		for _, uid := range foreignPods {
			if _, err := os.Stat(filepath.Join(m.foreign(uid), "canary")); err == nil && !strings.Contains(log, uid) {
				return false, "the directories are intact, and podexecd doesn't speak of " + uid
			}
		}
		return true, ""
	})
}

// unmountNeighbour removes what this test put into --kubelet-dir: judge finds all that is left there.
func (m *mortal) unmountNeighbour(t *testing.T) {
	t.Helper()
	m.checkCanaries(t)
	rig.Must(t, unix.Unmount(m.foreign("neighbour"), 0))
	for _, uid := range foreignPods {
		rig.Must(t, os.RemoveAll(filepath.Join(kubeletdir.PodsDir(m.path("kubelet")), uid)))
	}
}

// dieAt kills podexecd at a point in the life of a pod, and reports whether it died. If that is expected, it waits for it.
func (m *mortal) dieAt(t *testing.T, point failpoint.Point, expected bool) bool {
	t.Helper()
	m.podexecd.Kill()
	rig.Must(t, os.Setenv(failpoint.DieAt, string(point)))
	m.startExec(t)
	rig.Must(t, os.Unsetenv(failpoint.DieAt))
	pod := m.next(t)
	died := m.pass(t, "the pod runs", m.runs(pod))
	if !died {
		remove(t, m.admin, pod.Name)
		end := m.ended(pod)
		if expected { // The last points come after the end.
			end = func(context.Context) (bool, string) { return false, "podexecd doesn't die at " + string(point) }
		}
		died = m.pass(t, "the pod is gone, and its volumes are unstaged", end)
	}
	if !died {
		return false
	}
	m.died["podexecd at a point"]++
	m.startExec(t)
	m.complete(t, pod)
	return true
}

// pass waits for a result, and reports whether podexecd died before.
func (m *mortal) pass(t *testing.T, what string, good func(context.Context) (bool, string)) (died bool) {
	t.Helper()
	rig.Must(t, control.Until(t.Context(), nil, what, func(ctx context.Context) error {
		if died = m.podexecd.Ended(); died {
			return nil
		}
		if ok, now := good(ctx); !ok {
			return fmt.Errorf("%w: %s", control.ErrNotYet, now)
		}
		return nil
	}))
	return died
}

// dieSometime kills podexecd or the driver at a random moment of a pod's life.
func (m *mortal) dieSometime(t *testing.T) {
	t.Helper()
	pod := m.next(t)
	if m.chance.IntN(2) == 0 {
		m.awaitRunning(t, pod)
		remove(t, m.admin, pod.Name)
	}
	time.Sleep(time.Duration(m.chance.IntN(900)) * time.Millisecond) // the moment is what is random
	if m.chance.IntN(3) > 0 {
		m.podexecd.Kill()
		m.startExec(t)
		m.died["podexecd"]++
	} else {
		m.restartDriver(t)
		m.died["the driver"]++
	}
	m.complete(t, pod)
}

// restartDriver kills the driver, and starts it again.
func (m *mortal) restartDriver(t *testing.T) {
	t.Helper()
	last := len(m.drivers) - 1
	options := m.drivers[last].Options()
	m.drivers[last].Kill()
	m.drivers[last] = rig.Get(csidriver.Start(options))(t)
	t.Cleanup(m.drivers[last].Stop)
}

// next creates a pod with all claims.
func (m *mortal) next(t *testing.T) *corev1.Pod {
	t.Helper()
	m.pods++
	return m.run(t, fmt.Sprintf("mortal-%d", m.pods), m.claims...)
}

// complete brings a pod's life to its end.
func (m *mortal) complete(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	got, err := m.admin.CoreV1().Pods(namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err == nil && got.DeletionTimestamp == nil {
		m.await(t, "the pod runs", m.runs(pod))
		for i := range m.claims {
			at := filepath.Join(kubeletdir.PodsDir(m.path("kubelet")), string(pod.UID), "volumes", "kubernetes.io~csi", fmt.Sprintf("mortal-pv-%d", i), "mount", "canary")
			if _, err := os.Stat(at); err != nil {
				t.Errorf("the pod runs without its volume: %v", err)
			}
		}
		remove(t, m.admin, pod.Name)
	}
	m.await(t, "the pod is gone, and its volumes are unstaged", m.ended(pod))
	m.checkCanaries(t)
}

// runs and ended are what pass and await wait for.
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
		_, err := m.admin.CoreV1().Pods(namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		left, globErr := filepath.Glob(m.path("exec/volumes/*"))
		return apierrors.IsNotFound(err) && globErr == nil && len(left) == 0, fmt.Sprint(err, left, globErr)
	}
}
