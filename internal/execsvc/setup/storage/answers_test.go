package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstream/podstream/internal/execsvc/setup/volume"
)

// TestHungDriver: a driver that never answers, and doesn't even end with its context, delays only its own pod. After it
// answers, nothing is left.
func TestHungDriver(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		d.answer(func(_ context.Context, call string) error {
			if strings.HasPrefix(call, "stage hung") {
				<-release
			}
			return nil
		})
		n := start(t, dir, d, nil)
		hung := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() { hung <- n.manager.SetUp(ctx, volume.Request{Pod: pod("u0", "hung")}) }()
		synctest.Wait()
		began := time.Now()
		for i := 1; i < 10; i++ {
			p := pod(fmt.Sprint("u", i), fmt.Sprint("h", i))
			n.mustSetUp(p)
			n.mustTearDown(p.UID)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the other pods took %v", took)
		}
		if err := <-hung; !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "stage of volume hung has been running for 1m0s") {
			t.Errorf("the hung pod's error is %v", err)
		}
		// Without a deadline of the pod's worker, it is told at some time.
		if err := n.setUp(pod("u0", "hung")); !errors.Is(err, ErrBusy) {
			t.Errorf("the hung pod's error is %v, want ErrBusy", err)
		}
		if err := n.manager.TearDown(t.Context(), "u0"); err != nil {
			t.Errorf("the pod's volume was never published, and can't be torn down: %v", err)
		}
		close(release)
		n.empty()
	})
}

// TestUnanswered: a call without an answer is repeated with the same arguments, although others would be given now, also
// when no pod wants the volume any more and after a restart. Then it is undone.
func TestUnanswered(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		d.answer(hang("stage"))
		n := start(t, dir, d, nil)
		err := n.setUp(pod("u1", "h"))
		if want := `MountVolume.MountDevice failed for volume "pv-h" : there was no answer within 2m0s`; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
		n.claims.version = 1
		if err := n.setUp(pod("u1", "h")); err == nil {
			t.Error("the volume is set up")
		}
		n.expect("mark name^h", "attached name^h", "stage h s0/dev/x", "stage h s0/dev/x")
		n.mustTearDown("u1")
		time.Sleep(5 * time.Minute)
		n.stop()
		if calls := d.called(); len(calls) < 2 || calls[len(calls)-1] != "stage h s0/dev/x" {
			t.Errorf("without a pod: %v", calls)
		}

		n = start(t, dir, d, nil)
		time.Sleep(time.Second)
		d.answer(nil)
		time.Sleep(10 * time.Minute)
		n.expect("stage h s0/dev/x", "stage h s0/dev/x", "unstage h", "drop name^h")
		n.empty()
	})
}

// TestOutcomes: what an error of a driver means for the next call.
func TestOutcomes(t *testing.T) {
	for name, tc := range map[string]struct {
		out  Outcome
		want []string
	}{
		"final":     {Final, []string{"stage h s0/dev/x", "drop name^h"}},
		"uncertain": {Uncertain, []string{"stage h s0/dev/x", "unstage h", "drop name^h"}},
		"not sent":  {NotSent, []string{"stage h s0/dev/x", "drop name^h"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, d := t.TempDir(), newTruth()
			synctest.Test(t, func(t *testing.T) {
				bad := errors.New("bad")
				d.answer(func(_ context.Context, call string) error {
					if strings.HasPrefix(call, "stage") {
						return &Error{tc.out, bad}
					}
					return nil
				})
				n := start(t, dir, d, nil)
				if err := n.setUp(pod("u1", "h")); !errors.Is(err, bad) {
					t.Errorf("error %v", err)
				}
				n.mustTearDown("u1")
				n.empty()
				if got := withoutWaits(d.called())[1:]; !slices.Equal(got, tc.want) {
					t.Errorf("calls %q, want %q", got, tc.want)
				}
			})
		})
	}
}

// TestBackoff: a failing call is repeated, less and less often; calls of SetUp don't hurry it.
func TestBackoff(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		d.answer(func(_ context.Context, call string) error {
			if strings.HasPrefix(call, "publish") {
				return &Error{Final, errors.New("no")}
			}
			return nil
		})
		n := start(t, dir, d, nil)
		for range 6 {
			if err := n.setUp(pod("u1", "h")); err == nil || err.Error() != `MountVolume.SetUp failed for volume "pv-h" : no` {
				t.Errorf("error %v", err)
			}
		}
		synctest.Wait()
		d.mu.Lock()
		calls, times := d.calls[3:], d.times[3:]
		d.mu.Unlock()
		if len(calls) != 6 {
			t.Fatalf("calls %v, want 6", calls)
		}
		least := 500 * time.Millisecond
		for i := range calls[1:] {
			if pause := times[i+1].Sub(times[i]); pause < least || pause > 2*least {
				t.Errorf("the pause %d is %v, want %v to %v", i, pause, least, 2*least)
			}
			least *= 2
		}
		n.mustTearDown("u1")
		n.empty()
	})
}

// TestAbandonedWait: a wait for the API server ends when the pod doesn't need it any more.
func TestAbandonedWait(t *testing.T) {
	for _, word := range []string{"mark", "attached"} {
		t.Run(word, func(t *testing.T) {
			dir, d := t.TempDir(), newTruth()
			synctest.Test(t, func(t *testing.T) {
				d.answer(hang(word))
				n := start(t, dir, d, nil)
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				began := time.Now()
				if err := n.manager.SetUp(ctx, volume.Request{Pod: pod("u1", "h")}); !errors.Is(err, context.Canceled) {
					t.Errorf("error %v", err)
				}
				ctx, cancel = context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := n.manager.SetUp(ctx, volume.Request{Pod: pod("u1", "h")}); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v", err)
				}
				n.mustTearDown("u1")
				n.empty()
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
