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

// fakeRuntime is a runtime whose answers a test sets.
type fakeRuntime struct {
	mu                 sync.Mutex
	down, networkReady bool
	version            string
	handlers           []string
	groups             bool
	asked              int
}

func (f *fakeRuntime) Status(context.Context) (*runtimeapi.StatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.down {
		return nil, errors.New("no answer")
	}
	var handlers []*runtimeapi.RuntimeHandler
	for _, name := range append([]string{"runc"}, f.handlers...) {
		handlers = append(handlers, &runtimeapi.RuntimeHandler{Name: name})
	}
	if f.asked%2 == 0 {
		slices.Reverse(handlers)
	}
	return &runtimeapi.StatusResponse{
		Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
			{Type: "RuntimeReady", Status: true}, {Type: "NetworkReady", Status: f.networkReady, Reason: "No", Message: "cni"},
		}},
		RuntimeHandlers: handlers, Features: &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: f.groups},
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
		var logged []string
		r = NewRuntimeWatch(WatchConfig{Runtime: NewRuntimeStatus(RuntimeConfig{Status: f.Status, Version: f.Version}), Changed: func() {
			mu.Lock()
			defer mu.Unlock()
			logged = append(logged, errorsText(r.State().Errors(time.Now())))
		}})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { r.Run(ctx) })
		synctest.Wait()
		test(r, func() []string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			out := slices.Clone(logged)
			logged = nil
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
		want("at first", "container runtime status check may not have completed yet\nnetwork state unknown")
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

// A runtime that is replaced by another version is reported, and its features are used from then on. While it
// doesn't answer, its last features stay.
func TestRuntimeIsReplaced(t *testing.T) {
	f := &fakeRuntime{networkReady: true}
	watched(t, f, func(r *RuntimeWatch, changes func() []string) {
		want := func(what string, times, handlers int, groups, silent bool) {
			t.Helper()
			pass(askPeriod)
			if got := changes(); len(got) != times {
				t.Errorf("%s: told of %q; want %d changes", what, got, times)
			}
			if s := r.State(); len(s.Handlers) != handlers || s.Features.GetSupplementalGroupsPolicy() != groups || s.Silent != silent {
				t.Errorf("%s: the state is %+v", what, s)
			}
		}
		want("at first", 1, 1, false, false)
		f.set(func() { f.groups = true })
		want("with a feature", 1, 1, true, false)
		f.set(func() { f.handlers = []string{"kata"} })
		want("with a handler", 1, 2, true, false)
		want("in another order", 0, 2, true, false)
		f.set(func() { f.down = true })
		want("silent", 0, 2, true, true)
		f.set(func() { f.down = false })
		want("it answers again", 1, 2, true, false)
		f.set(func() { f.groups = false })
		r.cfg.Runtime.Ask(context.WithoutCancel(t.Context()))
		if s := r.State(); s.Silent || s.Features.GetSupplementalGroupsPolicy() {
			t.Errorf("asked, the state is %+v", s)
		}
	})
}

// A pod that was admitted while another caller had no answer waits until Changed is called, though Run itself never went without one.
func TestSilenceThatAnotherCallerMet(t *testing.T) {
	f := &fakeRuntime{networkReady: true}
	watched(t, f, func(r *RuntimeWatch, changes func() []string) {
		pass(askPeriod)
		changes()
		f.set(func() { f.down = true })
		r.cfg.Runtime.Ask(context.WithoutCancel(t.Context()))
		f.set(func() { f.down = false })
		if !r.State().Silent {
			t.Fatal("the runtime isn't silent")
		}
		pass(askPeriod)
		if got := changes(); len(got) != 1 || r.State().Silent {
			t.Errorf("changes %q, silent: %v; want one change, and an answer", got, r.State().Silent)
		}
	})
}

// A question goes on while any caller waits for it. One that every caller has given up doesn't make the runtime silent; one that the
// runtime doesn't answer in time does.
func TestAskOutlivesItsFirstCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		r := NewRuntimeStatus(RuntimeConfig{
			Status: func(ctx context.Context) (*runtimeapi.StatusResponse, error) {
				select {
				case <-answer:
					return (&fakeRuntime{}).Status(ctx)
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			},
			Version: new(fakeRuntime).Version,
		})
		ask := func(ctx context.Context) (context.CancelFunc, <-chan struct{}) {
			ctx, cancel := context.WithCancel(ctx)
			done := make(chan struct{})
			go func() {
				defer close(done)
				r.Ask(ctx)
			}()
			synctest.Wait()
			return cancel, done
		}
		giveUp, done := ask(t.Context())
		giveUp()
		<-done
		if r.Last().Silent {
			t.Error("the runtime is silent; only the caller's context ended")
		}
		giveUp, first := ask(t.Context())
		cancel, second := ask(t.Context())
		defer cancel()
		giveUp()
		<-first
		close(answer)
		<-second
		if s := r.Last(); s.Silent || s.Answered.IsZero() {
			t.Errorf("the state is %+v; want an answer", s)
		}
		answer = make(chan struct{})
		r.Ask(t.Context())
		if !r.Last().Silent {
			t.Error("the runtime isn't silent; it gave no answer in time")
		}
	})
}

// Await waits for the first answer, or for the end of its context.
func TestAwaitTheFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRuntime{down: true}
		r := NewRuntimeStatus(RuntimeConfig{Status: f.Status, Version: f.Version})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.Await(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v; want the context's error", err)
		}
		time.AfterFunc(time.Hour, func() { f.set(func() { f.down = false }) })
		if err := r.Await(t.Context()); err != nil || r.Last().Answered.IsZero() {
			t.Errorf("%v, %+v; want an answer", err, r.Last())
		}
	})
}

// A runtime that is never ready is asked often only for a while.
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
	r := NewRuntimeWatch(WatchConfig{Runtime: NewRuntimeStatus(RuntimeConfig{}), PLEG: func() error { return errors.New("lost") }})
	if err := r.State().PLEG; err == nil || err.Error() != "lost" {
		t.Errorf("PLEG is %v", err)
	}
}
