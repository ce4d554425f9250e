package containergc

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// removals is a Remover that records its calls and returns the result of do.
type removals struct {
	ids []string
	do  func(ctx context.Context, id string) error
}

func (r *removals) RemoveContainer(ctx context.Context, pod *observed.Pod, c observed.Container) error {
	id := string(pod.UID) + "/" + c.ID
	r.ids = append(r.ids, id)
	if r.do != nil {
		return r.do(ctx, id)
	}
	return nil
}

func (r *removals) take() []string {
	ids := r.ids
	r.ids = nil
	return ids
}

func all(types.UID) bool { return true }

func none(types.UID) bool { return false }

func TestRounds(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(start.Add(time.Hour))
	var rt removals
	c := New(Config{Runtime: &rt, LogsDir: t.TempDir(), MaxContainers: 1, MinAge: 10 * time.Minute, Clock: clock})
	found := []*observed.Pod{pod("p", exited("c", 3, 59), exited("c", 2, 50), exited("c", 1, 40), exited("c", 0, 30))}
	for _, step := range []struct {
		after time.Duration
		want  []string
	}{
		{0, []string{"p/c0", "p/c1", "p/c2"}},
		{59 * time.Second, nil},
		// Containers of a late relist are removed again, and no others are.
		{time.Second, []string{"p/c0", "p/c1", "p/c2"}},
		{time.Second, nil},
		{time.Minute, []string{"p/c0", "p/c1", "p/c2"}},
	} {
		clock.SetTime(clock.Now().Add(step.after))
		if err := c.Collect(t.Context(), found, all, true); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, rt.take()); diff != "" {
			t.Errorf("removed %v later (-want +got):\n%s", step.after, diff)
		}
	}
}

// A round with a failure is an event of the Node. A round that ends with podexecd is none.
func TestFailedRoundIsAnEvent(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(start.Add(time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	failure := errors.New("it is stuck")
	rt := removals{do: func(context.Context, string) error { return failure }}
	var got []string
	c := New(Config{Runtime: &rt, LogsDir: t.TempDir(), Clock: clock, Event: func(e nodestatus.Event) {
		got = append(got, e.Type+" "+e.Reason+": "+e.Message)
	}})
	found := []*observed.Pod{pod("p", exited("c", 1, 40), exited("c", 0, 30))}
	round := func(want ...string) {
		t.Helper()
		got = nil
		clock.SetTime(clock.Now().Add(time.Minute))
		_ = c.Collect(ctx, found, none, true)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	}
	round("Warning ContainerGCFailed: pod default/name-p: it is stuck\npod default/name-p: it is stuck")
	failure = nil
	round()
	rt.do = func(context.Context, string) error { cancel(); return context.Canceled }
	round()
}

// RemoveAll ignores the limit and the period; it respects MinAge and keeps what wanted pods need.
func TestRemoveAll(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(start.Add(time.Hour))
	rt := removals{do: func(_ context.Context, id string) error {
		if id == "over/c1" {
			return errors.New("no such luck")
		}
		return nil
	}}
	c := New(Config{Runtime: &rt, LogsDir: t.TempDir(), MaxContainers: -1, MinAge: 10 * time.Minute, Clock: clock})
	found := []*observed.Pod{
		pod("wanted", exited("c", 2, 59), exited("c", 1, 40), exited("c", 0, 30)), pod("over", exited("c", 2, 55), exited("c", 1, 20), exited("d", 0, 10)),
	}
	for range 2 {
		err := c.RemoveAll(t.Context(), found, func(uid types.UID) bool { return uid == "wanted" })
		if err == nil || !strings.Contains(err.Error(), "no such luck") {
			t.Error(err)
		}
		got := rt.take()
		slices.Sort(got)
		if diff := cmp.Diff([]string{"over/c1", "over/d0", "wanted/c0", "wanted/c1"}, got); diff != "" {
			t.Errorf("removed (-want +got):\n%s", diff)
		}
	}
}

// Until all sources are ready, an unknown pod counts as wanted.
func TestUnknownPodsAreWantedBeforeSourcesReady(t *testing.T) {
	found := []*observed.Pod{pod("a", exited("c", 1, 2), exited("c", 0, 1)), pod("b", exited("c", 0, 9))}
	for settled, want := range map[bool]string{false: "a/c0", true: "b/c0"} {
		var rt removals
		c := New(Config{Runtime: &rt, LogsDir: t.TempDir(), MaxContainers: 2})
		if err := c.Collect(t.Context(), found, func(uid types.UID) bool { return uid == "a" }, settled); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{want}, rt.take()); diff != "" {
			t.Errorf("removed with settled %v (-want +got):\n%s", settled, diff)
		}
	}
}

// A container that can't be removed doesn't keep other containers and links from being removed.
func TestFailuresAreReturned(t *testing.T) {
	broken := errors.New("no such luck")
	rt := removals{do: func(_ context.Context, id string) error {
		if id == "p/c1" {
			return nil
		}
		return broken
	}}
	n := newNode(t)
	n.link(t, "pods/default_gone_u1/c/0.log", "containers/x.log")
	var log bytes.Buffer
	clock := clocktesting.NewFakePassiveClock(time.Now().Add(time.Hour))
	c := New(Config{Runtime: &rt, LogsDir: n.logs, Clock: clock, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	found := []*observed.Pod{pod("p", exited("c", 3, 4), exited("c", 2, 3), exited("c", 1, 2), exited("c", 0, 1))}
	err := c.Collect(t.Context(), found, all, true)
	n.want(t)
	if !errors.Is(err, broken) || strings.Count(err.Error(), "pod default/name-p: no such luck") != 2 {
		t.Errorf("error %v; want both failures", err)
	}
	if err := c.Collect(t.Context(), nil, none, true); err != nil {
		t.Errorf("the next round isn't due, and fails: %v", err)
	}
	if diff := cmp.Diff([]string{"p/c0", "p/c1", "p/c2"}, rt.take()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "pod=default/name-p uid=p container=c id=c1") {
		t.Errorf("the log has\n%s\nwant the one container that was removed", got)
	}
}

// A hanging runtime blocks the sync loop for a bounded time, and links are removed all the same.
func TestRuntimeHangs(t *testing.T) {
	n := newNode(t)
	n.link(t, "pods/default_gone_u1/c/0.log", "containers/x.log")
	// The bubble's clock starts long before the link was made.
	clock := clocktesting.NewFakePassiveClock(time.Now().Add(time.Hour))
	synctest.Test(t, func(t *testing.T) {
		rt := removals{do: func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		c := New(Config{Runtime: &rt, LogsDir: n.logs, Clock: clock})
		begun := time.Now()
		found := []*observed.Pod{pod("p", exited("c", 1, 2), exited("c", 0, 1))}
		err := c.Collect(t.Context(), found, func(uid types.UID) bool { return uid == "p" }, true)
		if took := time.Since(begun); took != removeTimeout || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("took %v, error %v", took, err)
		}
		if diff := cmp.Diff([]string{"p/c0"}, rt.take()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
	n.want(t)
}
