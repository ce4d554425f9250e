package pleg

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// fakeRuntime has the pods of the test, and sends the events of the test.
type fakeRuntime struct {
	clock *testingclock.FakeClock

	mu   sync.Mutex
	pods []*observed.Pod
	err  error
	// hold blocks a List, after it has read, until it is closed. holdStatus does so with the Status of a pod.
	hold       chan struct{}
	holdStatus map[types.UID]chan struct{}
	// lists, statuses and watches count the calls.
	lists, statuses, watches int

	// watch is the error of Watch; nil: it streams the items of events, and returns the item of breaks.
	watch  error
	events chan *observed.Pod
	breaks chan error
}

// set sets the pods of the runtime.
func (f *fakeRuntime) set(pods ...*observed.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pods, f.err = pods, nil
}

func (f *fakeRuntime) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// holdList blocks Lists after their reading, until the returned function is called.
func (f *fakeRuntime) holdList() (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	hold := make(chan struct{})
	f.hold = hold
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.hold = nil
		close(hold)
	}
}

// holdPod does so with the Status of one pod.
func (f *fakeRuntime) holdPod(uid types.UID) (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	hold := make(chan struct{})
	f.holdStatus[uid] = hold
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.holdStatus, uid)
		close(hold)
	}
}

func (f *fakeRuntime) List(ctx context.Context) ([]*observed.Pod, error) {
	f.mu.Lock()
	f.lists++
	var out []*observed.Pod
	for _, p := range f.pods {
		out = append(out, f.read(p))
	}
	err, hold := f.err, f.hold
	f.mu.Unlock()
	return out, held(ctx, hold, err)
}

func (f *fakeRuntime) Status(ctx context.Context, uid types.UID) (*observed.Pod, error) {
	f.mu.Lock()
	f.statuses++
	out := f.read(&observed.Pod{UID: uid})
	for _, p := range f.pods {
		if p.UID == uid {
			out = f.read(p)
			// What only a full reading has.
			out.Name = "in full"
		}
	}
	err, hold := f.err, f.holdStatus[uid]
	f.mu.Unlock()
	return out, held(ctx, hold, err)
}

func held(ctx context.Context, hold chan struct{}, err error) error {
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

func (f *fakeRuntime) Watch(ctx context.Context, changed func(*observed.Pod)) error {
	f.mu.Lock()
	f.watches++
	err := f.watch
	f.mu.Unlock()
	if err != nil {
		return err
	}
	changed(nil)
	for {
		select {
		case reported := <-f.events:
			changed(reported)
		case err := <-f.breaks:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watchReturns sets the error of Watch; nil: it works.
func (f *fakeRuntime) watchReturns(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch = err
}

func (f *fakeRuntime) read(p *observed.Pod) *observed.Pod {
	out := *p
	out.ReadAt = f.clock.Now()
	return &out
}
