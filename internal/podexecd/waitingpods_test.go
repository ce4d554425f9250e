package podexecd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

var errNoDriver = errors.New("the driver isn't registered")

// fakeDrivers resolve volumes while there is a driver, and tell of changes.
type fakeDrivers struct {
	mu      sync.Mutex
	there   bool
	changed chan struct{}
	// failed is called after a Resolve has failed.
	failed func()
}

func (f *fakeDrivers) Resolve(context.Context, *v1.Pod, *v1.Volume) (storage.Volume, error) {
	f.mu.Lock()
	there, failed := f.there, f.failed
	f.mu.Unlock()
	if there {
		return storage.Volume{Name: "pv"}, nil
	}
	if failed != nil {
		failed()
	}
	return storage.Volume{}, errNoDriver
}

func (f *fakeDrivers) next() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

func (f *fakeDrivers) register() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.there, f.failed = true, nil
	close(f.changed)
	f.changed = make(chan struct{})
}

func newWaitingPods(t *testing.T, f *fakeDrivers, wake func(types.UID)) *waitingPods {
	t.Helper()
	f.changed = make(chan struct{})
	w := &waitingPods{claims: f, wake: wake, pods: map[types.UID]bool{}, refused: map[types.UID]bool{}}
	w.follow(f.next)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.run(ctx) })
	t.Cleanup(running.Wait)
	t.Cleanup(cancel)
	return w
}

// A pod whose volume can't be resolved is woken when a driver registers. One that is gone isn't.
func TestWaitingPodsAreWoken(t *testing.T) {
	f, woken := &fakeDrivers{}, make(chan types.UID, 2)
	w := newWaitingPods(t, f, func(uid types.UID) { woken <- uid })
	for _, uid := range []types.UID{"waits", "gone"} {
		if _, err := w.Resolve(t.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}, &v1.Volume{}); !errors.Is(err, errNoDriver) {
			t.Fatal(err)
		}
	}
	var dropped types.UID
	w.drop = func(uid types.UID) { dropped = uid }
	w.Drop("gone")
	f.register()
	if uid := <-woken; uid != "waits" || dropped != "gone" {
		t.Errorf("pod %s is woken, the claims of %s are dropped", uid, dropped)
	}
	if left := w.take(); len(left) > 0 || len(woken) > 0 {
		t.Errorf("%v wait, and %d others are woken", left, len(woken))
	}
}

// A driver that registers between the failure and the note of it is noticed.
func TestDriverRegistersMeanwhile(t *testing.T) {
	f := &fakeDrivers{}
	w := newWaitingPods(t, f, func(types.UID) {})
	f.failed = f.register
	v, err := w.Resolve(t.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}}, &v1.Volume{})
	if err != nil || v.Name != "pv" {
		t.Errorf("%+v, %v", v, err)
	}
}

// A driver that registers again and again doesn't have the pods woken each time: they would read their claims each time. Other calls for
// volumes are repeated at the same rate.
func TestDriverFlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeDrivers{}
		var w *waitingPods
		wait := func() {
			_, _ = w.Resolve(t.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}}, &v1.Volume{}) // It fails.
		}
		var woken, retried atomic.Int64
		w = newWaitingPods(t, f, func(types.UID) { woken.Add(1) })
		w.retry = func() { retried.Add(1) }
		for range 1000 {
			wait()
			f.register()
			f.mu.Lock()
			f.there = false
			f.mu.Unlock()
			time.Sleep(50 * time.Millisecond)
		}
		synctest.Wait()
		if n, most := woken.Load(), int64(burst+50*time.Second/steady+1); n < burst || n > most || retried.Load() != n {
			t.Errorf("in 50 s the pod was woken %d times, and volumes were retried %d times; want %d to %d", n, retried.Load(), burst, most)
		}
	})
}

// Without the boot ID podexecd doesn't start.
func TestBootID(t *testing.T) {
	path := filepath.Join(t.TempDir(), "boot_id")
	if id, err := bootID(path); err == nil {
		t.Errorf("a missing file: %q", id)
	}
	for content, want := range map[string]string{"": "", " \n": "", "1-2\n": "1-2"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if id, err := bootID(path); id != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", content, id, err)
		}
	}
	if id, err := bootID(bootIDFile); err != nil || len(id) != 36 {
		t.Errorf("this machine: %q, %v", id, err)
	}
}

// A pod that waits for another pod's volume is woken once when a pod is gone, unless it is gone itself.
func TestRefusedPodsAreWoken(t *testing.T) {
	var woken []types.UID
	w := newWaitingPods(t, &fakeDrivers{}, func(uid types.UID) { woken = append(woken, uid) })
	w.refuse("waits")
	w.refuse("gone")
	w.Drop("gone")
	if len(woken) != 1 || woken[0] != "waits" {
		t.Errorf("woken are %q; want the pod that waits", woken)
	}
	w.Drop("user")
	if len(woken) != 1 {
		t.Errorf("woken are %q; want no pod twice", woken)
	}
}
