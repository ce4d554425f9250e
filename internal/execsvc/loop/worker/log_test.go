package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestSameErrorIsLoggedOnce(t *testing.T) {
	run(t, func(h *harness) {
		lines := func() int { return strings.Count(h.log.String(), "\n") }
		again := func(err error, want int) {
			t.Helper()
			h.fail("sync a", err)
			h.Update(newPod("a", "web"))
			h.want("sync a")
			if lines() != want {
				t.Fatalf("log %q; want %d lines", h.log, want)
			}
		}
		h.Update(newPod("a", "web"))
		h.want("sync a")
		again(errors.New("one"), 1)
		again(errors.New("one"), 1)
		again(errors.New("two"), 2)
		again(errors.New("one"), 3)
		again(nil, 4)
		again(nil, 4)
		again(errors.New("one"), 5)
		if first, _, _ := strings.Cut(h.log.String(), "\n"); !strings.Contains(first, "level=ERROR") ||
			!strings.Contains(first, "pod=default/web uid=a step=sync error=one") {
			t.Errorf("logged %q", first)
		}
	})
}

// A transient failure is logged as an error only if it lasts, and only once.
func TestTransientFailureIsLoggedAsErrorOnceItLasts(t *testing.T) {
	run(t, func(h *harness) {
		fails := func(transient bool, err error) {
			h.plan("sync a", func(context.Context) (Result, error) { return Result{Transient: transient}, err })
		}
		want := func(infos, errors int) {
			t.Helper()
			text := h.log.String()
			if i, e := strings.Count(text, "level=INFO"), strings.Count(text, "level=ERROR"); i != infos || e != errors {
				t.Fatalf("log %q; want %d and %d lines", text, infos, errors)
			}
			h.log.Reset()
		}
		coming, failure := errors.New("not there yet"), errors.New("disk on fire")
		fails(true, coming)
		h.Update(newPod("a", "web"))
		h.want("sync a")
		want(1, 0)
		h.Retry("a")
		h.want("sync a")
		want(0, 0)
		h.wantPause(10*time.Second, "sync a")
		want(0, 1)
		h.wantPause(10*time.Second, "sync a")
		want(0, 0)
		fails(false, failure)
		h.wantPause(10*time.Second, "sync a")
		want(0, 1)
		fails(true, coming)
		h.wantPause(10*time.Second, "sync a")
		want(1, 0)
		fails(false, nil)
		h.wantPause(10*time.Second, "sync a")
		want(1, 0)
		fails(true, coming)
		h.Update(newPod("a", "web"))
		h.want("sync a")
		want(1, 0)
	})
}

// A pod with the pull policy Always and a missing ConfigMap pulls, fails, waits for the next pull, and fails with the
// same error. That is logged once. While it waits, its status has no error.
func TestSameErrorAfterWaitingIsLoggedOnce(t *testing.T) {
	run(t, func(h *harness) {
		lines := func() int { return strings.Count(h.log.String(), "\n") }
		sync := func(res Result, err error, want int) {
			t.Helper()
			h.plan("sync a", func(context.Context) (Result, error) { return res, err })
			h.Update(newPod("a", "web"))
			h.want("sync a")
			if lines() != want {
				t.Fatalf("log %q; want %d lines", h.log, want)
			}
			if got, _ := h.Get("a"); !errors.Is(got.Err, err) {
				t.Errorf("Err is %v; want %v", got.Err, err)
			}
		}
		missing := errors.New("configmap not found")
		sync(Result{}, missing, 1)
		sync(Result{Waiting: true}, nil, 1)
		sync(Result{}, missing, 1)
		sync(Result{Waiting: true}, nil, 1)
		sync(Result{}, errors.New("another"), 2)
		sync(Result{Waiting: true}, nil, 2)
		sync(Result{}, nil, 3)
		sync(Result{Waiting: true}, nil, 3)
		sync(Result{}, nil, 3)
		sync(Result{}, missing, 4)
	})
}
