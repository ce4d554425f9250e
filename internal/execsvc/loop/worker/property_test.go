package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
)

// op is one call of the workers.
type op struct {
	kind  string
	uid   types.UID
	grace int64
}

// namesByUID are the pods of the property test: several of them have one name.
var namesByUID = map[types.UID]string{"a": "web", "b": "web", "c": "web", "d": "job", "e": "job"}

// TestRandomCalls makes random calls for a few pods, with steps that take time and fail. It checks that calls of the
// Syncer for one UID never overlap, that two pods of one name never run at once, and that no deadline becomes later.
// At rest, every desired pod is at its latest version, waits for its name, or was killed, and nothing is left of every
// other pod.
func TestRandomCalls(t *testing.T) {
	uids := []types.UID{"a", "b", "c", "d", "e"}
	rapid.Check(t, func(rt *rapid.T) {
		ops := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) op {
			return op{
				kind:  rapid.SampledFrom([]string{"update", "update", "remove", "delete", "kill", "sync", "time", "wait", "fail", "mend"}).Draw(rt, "kind"),
				uid:   rapid.SampledFrom(uids).Draw(rt, "uid"),
				grace: rapid.Int64Range(0, 4).Draw(rt, "grace"),
			}
		}), 1, 60).Draw(rt, "ops")
		var err error
		synctest.Test(t, func(*testing.T) { err = play(ops) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// model is the expected state, computed from the ops alone.
type model struct {
	desired map[types.UID]*v1.Pod
	// killed are the desired pods that must not run any more.
	killed map[types.UID]bool
	count  int
}

func play(ops []op) error {
	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	fake := &slowSyncer{
		clock: clock, busy: map[types.UID]bool{}, running: map[string]types.UID{}, synced: map[types.UID]*v1.Pod{}, last: map[types.UID]string{},
		deadlines: map[types.UID]time.Time{},
	}
	w := New(Config{Syncer: fake, Clock: clock})
	defer w.Stop()
	m := model{desired: map[types.UID]*v1.Pod{}, killed: map[types.UID]bool{}}
	for _, o := range ops {
		switch o.kind {
		case "update", "delete":
			pod := m.next(o.uid)
			if old := m.desired[o.uid]; o.kind == "delete" || old != nil && old.DeletionTimestamp != nil {
				pod = deleted(pod, o.grace)
			}
			m.desired[o.uid] = pod
			w.Update(pod)
		case "remove":
			pod := m.desired[o.uid]
			if pod == nil {
				pod = m.next(o.uid)
			}
			delete(m.desired, o.uid)
			delete(m.killed, o.uid)
			w.Remove(pod, o.grace)
		case "kill":
			// At rest no successor starts between these two calls.
			synctest.Wait()
			before, _ := w.Get(o.uid)
			if w.Kill(o.uid, Kill{Grace: &o.grace}) && !before.Removed {
				m.killed[o.uid] = true
			}
		case "sync":
			w.Sync(o.uid)
		case "time":
			clock.Step(time.Duration(o.grace) * 5 * time.Second)
		case "wait":
			synctest.Wait()
		case "fail", "mend":
			fake.fail(o.kind == "fail")
		}
	}
	fake.fail(false)
	settle(clock)
	if err := m.check(w, fake); err != nil {
		return err
	}
	for uid, pod := range m.desired {
		w.Remove(pod, 1)
		delete(m.desired, uid)
		// Now a pod that waited for the name may start.
		settle(clock)
		if err := m.check(w, fake); err != nil {
			return fmt.Errorf("after the removal of %s: %w", uid, err)
		}
	}
	return nil
}

// next returns the next version of a pod.
func (m *model) next(uid types.UID) *v1.Pod {
	m.count++
	return version(newPod(string(uid), namesByUID[uid]), fmt.Sprint(m.count))
}

// settle advances the clock until no step is running and no retry is pending.
func settle(clock *testingclock.FakeClock) {
	for range 40 {
		synctest.Wait()
		clock.Step(10 * time.Second)
	}
	synctest.Wait()
}

// check compares the workers, at rest, with the model.
func (m *model) check(w *Workers, fake *slowSyncer) error {
	fake.mu.Lock()
	defer fake.mu.Unlock()
	if fake.err != nil {
		return fake.err
	}
	running, waiting := map[string]int{}, map[string]int{}
	for uid, name := range namesByUID {
		got, there := w.Get(uid)
		pod := m.desired[uid]
		switch {
		case pod == nil && there:
			return fmt.Errorf("%s is not desired and is still %v", uid, got.State)
		case pod == nil:
			if last := fake.last[uid]; last != "" && last != "purge" {
				return fmt.Errorf("the last call for %s, which is not desired, is %q", uid, last)
			}
			continue
		case !there:
			return fmt.Errorf("%s is desired and has no worker", uid)
		case got.Removed || got.Pod != pod:
			return fmt.Errorf("%s has version %q, removed %v; want version %q", uid, got.Pod.Labels, got.Removed, pod.Labels)
		case pod.DeletionTimestamp != nil || m.killed[uid]:
			if got.State != Finished {
				return fmt.Errorf("%s is being deleted or killed, and is %v", uid, got.State)
			}
			continue
		}
		switch got.State {
		case Syncing:
			running[name]++
			if fake.synced[uid] != pod {
				return fmt.Errorf("%s was synced last at version %v; want %v", uid, fake.synced[uid].Labels, pod.Labels)
			}
		case Waiting:
			waiting[name]++
		default:
			return fmt.Errorf("%s is desired, and is %v", uid, got.State)
		}
	}
	for _, name := range namesByUID {
		if running[name] > 1 || running[name] == 0 && waiting[name] > 0 {
			return fmt.Errorf("of %s, %d run and %d wait", name, running[name], waiting[name])
		}
	}
	return nil
}

// slowSyncer takes a second of the clock for each call, and records a call that breaks a rule.
type slowSyncer struct {
	clock *testingclock.FakeClock

	mu      sync.Mutex
	failing bool
	// busy are the pods with a running call; running maps a name to the pod that was synced and is not stopped yet.
	busy    map[types.UID]bool
	running map[string]types.UID
	// synced is the version of the last SyncPod that succeeded; last is the last call that succeeded.
	synced map[types.UID]*v1.Pod
	last   map[types.UID]string
	// deadlines are those of the terminating pods.
	deadlines map[types.UID]time.Time
	err       error
}

func (f *slowSyncer) fail(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing = on
}

func (f *slowSyncer) begin(pod *v1.Pod, what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy[pod.UID] {
		f.err = fmt.Errorf("%s of %s during another call for it", what, pod.UID)
	}
	f.busy[pod.UID] = true
	owner, alive := f.running[pod.Name]
	switch {
	case what == "sync" && alive && owner != pod.UID:
		f.err = fmt.Errorf("%s starts while %s of the same name runs", pod.UID, owner)
	case what == "sync" && pod.DeletionTimestamp != nil:
		f.err = fmt.Errorf("%s starts although it is being deleted", pod.UID)
	case what == "sync":
		f.running[pod.Name] = pod.UID
	case (what == "clean up" || what == "purge") && alive && owner == pod.UID:
		f.err = fmt.Errorf("%s of %s, which runs", what, pod.UID)
	}
}

func (f *slowSyncer) call(ctx context.Context, pod *v1.Pod, what string) error {
	f.begin(pod, what)
	select {
	case <-f.clock.After(time.Second):
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy[pod.UID] = false
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case f.failing:
		return errors.New("it was to fail")
	}
	f.last[pod.UID] = what
	switch what {
	case "sync":
		f.synced[pod.UID] = pod
	case "purge":
		delete(f.deadlines, pod.UID)
	case "terminate":
		if f.running[pod.Name] == pod.UID {
			delete(f.running, pod.Name)
		}
	}
	return nil
}

func (f *slowSyncer) SyncPod(ctx context.Context, pod *v1.Pod) (Result, error) {
	return Result{}, f.call(ctx, pod, "sync")
}

func (f *slowSyncer) SyncTerminatingPod(ctx context.Context, pod *v1.Pod, t Termination) error {
	f.mu.Lock()
	if last, ending := f.deadlines[pod.UID]; t.Grace < 1 || ending && t.Deadline.After(last) {
		f.err = fmt.Errorf("%s gets %d s to end, until %v; before, it was until %v", pod.UID, t.Grace, t.Deadline, last)
	}
	f.deadlines[pod.UID] = t.Deadline
	f.mu.Unlock()
	return f.call(ctx, pod, "terminate")
}

func (f *slowSyncer) SyncTerminatedPod(ctx context.Context, pod *v1.Pod, _ Termination) error {
	return f.call(ctx, pod, "clean up")
}

func (f *slowSyncer) PurgePod(ctx context.Context, pod *v1.Pod) error {
	return f.call(ctx, pod, "purge")
}
