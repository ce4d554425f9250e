package volumeusage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world has mounted volumes and their drivers.
type world struct {
	*Meter
	registry *prometheus.Registry

	mu      sync.Mutex
	mounted []storage.Mounted
	// hangs are handles whose driver doesn't answer, lasts how long an answer takes, and fails the errors, by handle.
	hangs map[string]bool
	lasts map[string]time.Duration
	fails map[string]error
	// calls counts calls by handle. most is the most calls of a driver at a time, and twice is set if there were two for a handle.
	calls    map[string]int
	underway map[string]map[string]bool
	most     int
	twice    bool
	log      bytes.Buffer
}

// callLimit is that of package storage.
const callLimit = 2 * time.Minute

// inWorld runs the test in a synctest bubble, with a Meter that runs.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			registry: prometheus.NewRegistry(), hangs: map[string]bool{}, lasts: map[string]time.Duration{}, fails: map[string]error{},
			calls: map[string]int{}, underway: map[string]map[string]bool{},
		}
		w.Meter = New(Config{Volumes: w, Metrics: w.registry, Log: slog.New(slog.NewTextHandler(w, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { w.Run(ctx) })
		defer func() {
			cancel()
			running.Wait()
			if w.most > maxCalls || w.twice {
				t.Errorf("%d calls of a driver at a time; two of one volume: %v", w.most, w.twice)
			}
		}()
		test(t, w)
	})
}

// at returns a volume that is mounted for a pod, under the name of its handle.
func at(driver, handle, uid string) storage.Mounted {
	return storage.Mounted{
		Key:    record.Key{Driver: driver, Handle: handle},
		Target: record.Target{UID: types.UID(uid), Plugin: "kubernetes.io/csi", Name: "pv-" + handle}, Volumes: []string{handle},
	}
}

// change changes the world.
func (w *world) change(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// mount sets the mounted volumes, and waits until that has been noticed.
func (w *world) mount(all ...storage.Mounted) {
	w.change(func() { w.mounted = all })
	pass(look)
}

// pass advances the time, and waits until due work is done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Mounted is part of Volumes.
func (w *world) Mounted() []storage.Mounted {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mounted
}

// Stats is part of Volumes: the use of a volume is the number of its calls.
func (w *world) Stats(ctx context.Context, uid types.UID, name string) (storage.Stats, error) {
	w.mu.Lock()
	var of storage.Mounted
	for _, m := range w.mounted {
		if m.UID == uid && m.Volumes[0] == name {
			of = m
		}
	}
	under := w.underway[of.Driver]
	if under == nil {
		under = map[string]bool{}
		w.underway[of.Driver] = under
	}
	w.twice = w.twice || under[of.Handle]
	under[of.Handle] = true
	w.most = max(w.most, len(under))
	w.calls[of.Handle]++
	used, hangs, lasts, err := w.calls[of.Handle], w.hangs[of.Handle], w.lasts[of.Handle], w.fails[of.Handle]
	w.mu.Unlock()
	if hangs {
		lasts, err = callLimit, context.DeadlineExceeded
	}
	if lasts > 0 {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(lasts):
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(under, of.Handle)
	return storage.Stats{Used: int64(used)}, err
}

// called returns how often the driver was asked about a volume.
func (w *world) called(handle string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[handle]
}

// want checks the values: "pod/volume=used", in any order.
func (w *world) want(t *testing.T, want ...string) {
	t.Helper()
	began, have := time.Now(), map[string]bool{}
	for uid, volumes := range w.Usage() {
		for name, u := range volumes {
			have[fmt.Sprintf("%s/%s=%d", uid, name, u.Used)] = true
		}
	}
	if !time.Now().Equal(began) {
		t.Error("Usage waits")
	}
	ok := len(have) == len(want)
	for _, one := range want {
		ok = ok && have[one]
	}
	if !ok {
		t.Errorf("the values are %v; want %v", have, want)
	}
}

// Write receives the log.
func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

// logged returns the number of log lines with the text.
func (w *world) logged(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.log.String(), text)
}

var errBroken = errors.New("the array is broken")
