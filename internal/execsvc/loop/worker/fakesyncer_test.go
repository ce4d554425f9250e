package worker

import (
	"context"
	"fmt"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	testingclock "k8s.io/utils/clock/testing"
)

// fakeSyncer records the calls as "sync a", "terminate a 30", "clean up a" and "purge a". A pod with a version label
// is recorded as "a:v2"; the reason of a failure comes last: "terminate a 30 Evicted".
type fakeSyncer struct {
	clock *testingclock.FakeClock

	mu    sync.Mutex
	calls []string
	// plan are the functions that the calls of that text run. Calls without one succeed.
	plan map[string]func(context.Context) (Result, error)
}

func (f *fakeSyncer) call(ctx context.Context, what string, pod *v1.Pod, more ...any) (Result, error) {
	text := fmt.Sprintln(append([]any{what, nameOf(pod)}, more...)...)
	text = strings.TrimSpace(text)
	f.mu.Lock()
	f.calls = append(f.calls, text)
	do := f.plan[text]
	f.mu.Unlock()
	if do == nil {
		return Result{}, nil
	}
	return do(ctx)
}

func why(t Termination) []any {
	if t.Failure == nil {
		return nil
	}
	return []any{t.Failure.Reason}
}

func nameOf(pod *v1.Pod) string {
	if v := pod.Labels["version"]; v != "" {
		return string(pod.UID) + ":" + v
	}
	return string(pod.UID)
}

func (f *fakeSyncer) SyncPod(ctx context.Context, pod *v1.Pod) (Result, error) {
	return f.call(ctx, "sync", pod)
}

func (f *fakeSyncer) SyncTerminatingPod(ctx context.Context, pod *v1.Pod, t Termination) error {
	_, err := f.call(ctx, "terminate", pod, append([]any{t.left(f.clock.Now())}, why(t)...)...)
	return err
}

func (f *fakeSyncer) SyncTerminatedPod(ctx context.Context, pod *v1.Pod, t Termination) error {
	_, err := f.call(ctx, "clean up", pod, why(t)...)
	return err
}

func (f *fakeSyncer) PurgePod(ctx context.Context, pod *v1.Pod) error {
	_, err := f.call(ctx, "purge", pod)
	return err
}
