package shutdown

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/machine/logind"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a machine with a logind and pods, in a synctest bubble.
type world struct {
	t       *testing.T
	m       *Manager
	cfg     Config
	started time.Time
	stop    func()

	mu sync.Mutex
	// away is why logind can't be connected to. delay is its longest delay, settable whether it takes another one.
	away      error
	delay     time.Duration
	settable  bool
	asked     time.Duration
	preparing bool
	// unclear is why logind doesn't return its longest delay. asks is how often it was asked for its state.
	unclear error
	asks    int
	// locks is the number of locks, refused the error of further ones, conns are the connections.
	locks   int
	refused error
	conns   []*fakeConn
	// pods are the pods that haven't ended, with the time that each takes.
	pods  map[types.UID]*v1.Pod
	takes map[types.UID]time.Duration
	// did are the events of the test, each with its second.
	did      []string
	restored chan struct{}
	reported bool
	log      bytes.Buffer
}

// inWorld runs a test with a logind of that delay, and pods whose names are "NAME PRIORITY OWN-GRACE TAKES".
func inWorld(t *testing.T, periods []Period, delay time.Duration, pods []string, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, delay: delay, settable: true, pods: map[types.UID]*v1.Pod{}, takes: map[types.UID]time.Duration{},
			restored: make(chan struct{}), reported: true,
		}
		close(w.restored)
		for _, text := range pods {
			var name string
			var priority int32
			var own int64
			var takes int
			if _, err := fmt.Sscan(text, &name, &priority, &own, &takes); err != nil {
				t.Fatal(err)
			}
			w.pods[types.UID(name)], w.takes[types.UID(name)] = newPod(name, &priority, &own), time.Duration(takes)*time.Second
		}
		w.cfg = Config{
			Periods: periods, Dial: w.dial, StateFile: filepath.Join(t.TempDir(), StateFile), Logger: slog.New(slog.NewTextHandler(w, nil)),
			Changed: func() { w.do("changed") }, Event: func(e nodestatus.Event) { w.do(e.Reason + ": " + e.Message) },
			Reported: func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.reported },
		}
		w.run()
		defer func() { w.stop() }()
		test(w)
	})
}

// run starts a Manager, as podexecd does.
func (w *world) run() {
	w.m = New(w.cfg)
	w.set(func() { w.started = time.Now() })
	ctx, cancel := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.m.Run(ctx, w) })
	w.stop = func() { cancel(); running.Wait() }
	time.Sleep(quiet)
	synctest.Wait()
}

// Write receives the log.
func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *world) wantLogged(text string, times int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := strings.Count(w.log.String(), text); n != times {
		w.t.Errorf("%q is logged %d times; want %d:\n%s", text, n, times, &w.log)
	}
}

// do records an event with its second.
func (w *world) do(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(what)
}

func (w *world) note(what string) {
	w.did = append(w.did, fmt.Sprintf("%d %s", int(time.Since(w.started).Round(time.Second)/time.Second), what))
}

// want waits for that time, and expects the events since the last call. Those of one second are sorted.
func (w *world) want(after time.Duration, events ...string) {
	w.t.Helper()
	time.Sleep(after)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	second := func(s string) int { var n int; _, _ = fmt.Sscan(s, &n); return n }
	for _, list := range [][]string{w.did, events} {
		slices.SortFunc(list, func(a, b string) int { return cmp.Or(second(a)-second(b), strings.Compare(a, b)) })
	}
	if !slices.Equal(w.did, events) {
		w.t.Fatalf("the events are\n\t%s\nwant\n\t%s\nlog:\n%s", strings.Join(w.did, "\n\t"), strings.Join(events, "\n\t"), &w.log)
	}
	w.did = nil
}

// set changes the world.
func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// prepare begins or cancels a shutdown. The clock begins again.
func (w *world) prepare(preparing bool) {
	w.set(func() {
		w.preparing, w.started = preparing, time.Now()
		w.signal()
	})
	synctest.Wait()
}

func (w *world) signal() {
	for _, c := range w.conns {
		select {
		case c.changed <- struct{}{}:
		default:
		}
	}
}

// lose ends all connections.
func (w *world) lose() {
	w.set(func() {
		for _, c := range w.conns {
			close(c.lost)
		}
		w.conns = nil
	})
}

func (w *world) wantLocks(want int) {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.locks != want {
		w.t.Errorf("%d locks are held; want %d", w.locks, want)
	}
}

// fakeConn is a connection to the world's logind. It does what logindtest.Login does.
type fakeConn struct {
	w             *world
	changed, lost chan struct{}
}

func (w *world) dial(context.Context) (Logind, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away != nil {
		return nil, w.away
	}
	c := &fakeConn{w: w, changed: make(chan struct{}, 1), lost: make(chan struct{})}
	w.conns = append(w.conns, c)
	return c, nil
}

func (c *fakeConn) Changed() <-chan struct{} { return c.changed }
func (c *fakeConn) Lost() <-chan struct{}    { return c.lost }
func (c *fakeConn) Close()                   {}

func (c *fakeConn) Preparing(context.Context) (bool, error) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.asks++
	return c.w.preparing, c.w.away
}

func (c *fakeConn) MaxDelay(context.Context) (time.Duration, error) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.w.delay, cmp.Or(c.w.unclear, c.w.away)
}

func (c *fakeConn) SetMaxDelay(delay time.Duration) error {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.asked = delay
	return nil
}

// Reload takes effect after a while, as logind's does.
func (c *fakeConn) Reload(context.Context) error {
	time.AfterFunc(150*time.Millisecond, func() {
		c.w.mu.Lock()
		defer c.w.mu.Unlock()
		if c.w.settable {
			c.w.delay = c.w.asked
		}
	})
	return nil
}

func (c *fakeConn) Inhibit(context.Context) (io.Closer, error) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	switch {
	case c.w.refused != nil:
		return nil, c.w.refused
	case c.w.preparing:
		return nil, fmt.Errorf("refused: %w", logind.ErrUnderWay)
	}
	c.w.locks++
	return &fakeLock{w: c.w}, nil
}

type fakeLock struct {
	w      *world
	closed bool
}

func (l *fakeLock) Close() error {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.closed {
		return errors.New("closed twice")
	}
	l.closed = true
	if l.w.locks--; l.w.preparing {
		l.w.note("unlocked")
	}
	return nil
}
