package node

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fakeRuntime answers as a test wants it to.
type fakeRuntime struct {
	mu                 sync.Mutex
	down, networkReady bool
	version            string
	asked              int
}

func (f *fakeRuntime) Status(context.Context) (*runtimeapi.StatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.down {
		return nil, errors.New("no answer")
	}
	return &runtimeapi.StatusResponse{
		Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
			{Type: "RuntimeReady", Status: true}, {Type: "NetworkReady", Status: f.networkReady, Reason: "No", Message: "cni"},
		}},
		RuntimeHandlers: []*runtimeapi.RuntimeHandler{{Name: "runc"}},
	}, nil
}

func (f *fakeRuntime) Version(context.Context) (*runtimeapi.VersionResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &runtimeapi.VersionResponse{RuntimeName: "containerd", RuntimeVersion: f.version}, nil
}

func (f *fakeRuntime) set(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *fakeRuntime) takeAsked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.asked
	f.asked = 0
	return n
}

// watched has a RuntimeWatch of the runtime run in a bubble.
func watched(t *testing.T, f *fakeRuntime, test func(r *RuntimeWatch, changes func() []string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var r *RuntimeWatch
		var mu sync.Mutex
		var told []string
		r = NewRuntimeWatch(RuntimeConfig{Status: f.Status, Version: f.Version, Changed: func() {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, errorsText(r.State().Errors(time.Now())))
		}})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { r.Run(ctx) })
		synctest.Wait()
		test(r, func() []string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			out := slices.Clone(told)
			told = nil
			return out
		})
		cancel()
		running.Wait()
	})
}

func TestRuntimeWatch(t *testing.T) {
	const networkDown = "container runtime network not ready: NetworkReady=false reason:No message:cni"
	f := &fakeRuntime{down: true, version: "1"}
	watched(t, f, func(r *RuntimeWatch, changes func() []string) {
		want := func(what string, texts ...string) {
			t.Helper()
			if diff := cmp.Diff(texts, changes()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		want("at first", "container runtime status check may not have completed yet")
		f.set(func() { f.down = false })
		pass(eagerPeriod)
		want("it answers", networkDown)
		f.set(func() { f.networkReady = true })
		pass(eagerPeriod)
		want("it is ready", "")
		if s := r.State(); s.Name != "containerd" || s.Version != "1" || len(s.Handlers) != 1 {
			t.Errorf("the state is %+v", s)
		}
		f.takeAsked()
		pass(time.Minute)
		if n := f.takeAsked(); n != 12 {
			t.Errorf("then it is asked %d times a minute; want 12", n)
		}

		// A short silence is none, and what was known stands.
		f.set(func() { f.down, f.version = true, "2" })
		pass(25 * time.Second)
		want("silent for 25 s")
		pass(10 * time.Second)
		want("silent for longer", "container runtime is down")
		if s := r.State(); s.Version != "1" || len(s.Handlers) != 1 {
			t.Errorf("the state is %+v", s)
		}
		f.set(func() { f.down = false })
		pass(askPeriod)
		want("back", "")
		if got := r.State().Version; got != "2" {
			t.Errorf("the version is %s; another one has come", got)
		}
	})
}

// A runtime that isn't ready is asked often only for a while.
func TestRuntimeThatIsNeverReady(t *testing.T) {
	f := &fakeRuntime{}
	watched(t, f, func(_ *RuntimeWatch, _ func() []string) {
		pass(eagerFor + askPeriod)
		f.takeAsked()
		pass(time.Minute)
		if n := f.takeAsked(); n != 12 {
			t.Errorf("it is asked %d times a minute; want 12", n)
		}
	})
}

func TestPLEGIsPartOfTheState(t *testing.T) {
	r := NewRuntimeWatch(RuntimeConfig{PLEG: func() error { return errors.New("lost") }})
	if err := r.State().PLEG; err == nil || err.Error() != "lost" {
		t.Errorf("PLEG is %v", err)
	}
}
