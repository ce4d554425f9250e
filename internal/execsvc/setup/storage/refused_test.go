package storage

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestUnstageRefused: a driver that refuses to unstage a volume keeps no later pod from it. The volume is staged again first, also after a
// restart, and unstaged when no pod wants it.
func TestUnstageRefused(t *testing.T) {
	for name, out := range map[string]Outcome{"final": Final, "uncertain": Uncertain, "in progress": InProgress} {
		for _, restarts := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				dir, d := t.TempDir(), newTruth()
				synctest.Test(t, func(t *testing.T) {
					n := start(t, dir, d, nil)
					n.mustSetUp(pod("u1", "h"))
					n.expect("mark name^h", "attached name^h", "stage h s0/dev/x", "publish h u1 p0")
					d.answer(func(_ context.Context, call string) error {
						if call == "unstage h" {
							return &Error{out, errors.New("refused")}
						}
						return nil
					})
					n.mustTearDown("u1")
					n.expect("unpublish h u1", "unstage h")
					if restarts {
						n.stop()
						d.called()
						n = start(t, dir, d, nil)
						synctest.Wait()
						d.called()
					}
					n.mustSetUp(pod("u2", "h"))
					n.expect("stage h s0/dev/x", "publish h u2 p0")
					n.mustTearDown("u2")
					n.expect("unpublish h u2") // there is a pause after the refusals
					d.answer(nil)
					time.Sleep(time.Hour)
					n.expect("unstage h", "drop name^h")
					n.empty()
				})
			})
		}
	}
}

// TestUnstageRefusedLate: it is the same if the first call to unstage the volume had no answer, and the driver refuses the repeated one; also
// if podexecd restarts before the first answer, or after it.
func TestUnstageRefusedLate(t *testing.T) {
	for name, restarts := range map[string]int{"running": 0, "restarted before the answer": 1, "restarted after it": 2} {
		t.Run(name, func(t *testing.T) {
			dir, d := t.TempDir(), newTruth()
			synctest.Test(t, func(t *testing.T) {
				n := start(t, dir, d, nil)
				n.mustSetUp(pod("u1", "h"))
				d.answer(hang("unstage"))
				n.mustTearDown("u1")
				time.Sleep(3 * time.Minute) // The call has timed out.
				refuse := func(_ context.Context, call string) error {
					if call == "unstage h" {
						return &Error{Final, errors.New("refused")}
					}
					return nil
				}
				if restarts == 1 {
					n.stop() // A call hangs until its context ends.
					d.called()
					d.answer(refuse)
					n = start(t, dir, d, nil)
				}
				d.answer(refuse)
				time.Sleep(10 * time.Minute)
				if restarts == 2 {
					n.stop()
					n = start(t, dir, d, nil)
				}
				synctest.Wait()
				d.called()
				n.mustSetUp(pod("u2", "h"))
				n.expect("stage h s0/dev/x", "publish h u2 p0")
				n.mustTearDown("u2")
				d.answer(nil)
				time.Sleep(time.Hour)
				d.called()
				n.empty()
			})
		})
	}
}

// TestUnstageInProgress: while the driver answers that a call to unstage the volume, which had no answer, hasn't ended, the volume isn't staged
// for another pod; also after a restart. The driver could unstage it under that pod.
func TestUnstageInProgress(t *testing.T) {
	for name, restarts := range map[string]bool{"running": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			dir, d := t.TempDir(), newTruth()
			synctest.Test(t, func(t *testing.T) {
				n := start(t, dir, d, nil)
				n.mustSetUp(pod("u1", "h"))
				d.answer(hang("unstage"))
				n.mustTearDown("u1")
				time.Sleep(2*time.Minute + time.Second) // The call has timed out.
				answer := func(out Outcome) func(context.Context, string) error {
					return func(_ context.Context, call string) error {
						if call == "unstage h" {
							return &Error{out, errors.New("an operation is pending")}
						}
						return nil
					}
				}
				d.answer(answer(InProgress))
				time.Sleep(10 * time.Minute)
				if restarts {
					n.stop()
					n = start(t, dir, d, nil)
				}
				d.called()
				if err := n.setUp(pod("u2", "h")); err == nil || !strings.Contains(err.Error(), "an operation is pending") {
					t.Errorf("error %v", err)
				}
				time.Sleep(10 * time.Minute)
				calls := d.called()
				for _, call := range calls {
					if call != "unstage h" {
						t.Errorf("%s, and the unstage is pending", call)
					}
				}
				if len(calls) == 0 {
					t.Error("it isn't repeated")
				}
				d.answer(answer(Final)) // This is an answer.
				time.Sleep(10 * time.Minute)
				n.mustSetUp(pod("u2", "h"))
				n.expect("unstage h", "stage h s0/dev/x", "publish h u2 p0")
				d.answer(nil)
				n.mustTearDown("u2")
				time.Sleep(time.Hour)
				n.empty()
			})
		})
	}
}

// TestUndoneFirst: a volume of which it isn't known what a driver has made is unstaged before a pod gets it, also if the driver refuses that at
// first.
func TestUndoneFirst(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		d.answer(hang("stage"))
		n := start(t, dir, d, nil)
		if err := n.setUp(pod("u1", "h")); err == nil {
			t.Fatal("it is set up")
		}
		d.answer(func(_ context.Context, call string) error {
			if call != "unstage h" && call != "stage h s0/dev/x" {
				return nil
			}
			return &Error{Final, errors.New("refused")}
		})
		time.Sleep(10 * time.Minute) // The repeated stage is refused, so that the first one may have done something.
		n.stop()
		d.called()
		n = start(t, dir, d, nil)
		if err := n.setUp(pod("u1", "h")); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("error %v", err)
		}
		time.Sleep(10 * time.Minute)
		for _, call := range d.called() {
			if call != "unstage h" {
				t.Errorf("%s of a volume that isn't unstaged", call)
			}
		}
		d.answer(nil)
		time.Sleep(10 * time.Minute)
		n.mustSetUp(pod("u1", "h"))
		n.mustTearDown("u1")
		time.Sleep(time.Hour)
		n.empty()
	})
}

// TestUnstageRefusedAfterReboot: a volume that was being unstaged when the machine was booted is unstaged before a pod gets it, also if the driver
// refuses that at first: what it has is that of another boot.
func TestUnstageRefusedAfterReboot(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, nil)
		n.mustSetUp(pod("u1", "h"))
		d.answer(hang("unstage"))
		n.mustTearDown("u1")
		synctest.Wait()
		n.stop()
		d.called()
		d.staged = map[string]bool{}
		d.answer(func(_ context.Context, call string) error {
			if call == "unstage h" {
				return &Error{Final, errors.New("refused")}
			}
			return nil
		})
		n = start(t, dir, d, func(c *Config) { c.Boot = "boot2" })
		if err := n.setUp(pod("u2", "h")); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("error %v", err)
		}
		time.Sleep(10 * time.Minute)
		calls := d.called()
		for _, call := range calls {
			if call != "unstage h" {
				t.Errorf("%s of a volume that isn't unstaged", call)
			}
		}
		if len(calls) < 2 {
			t.Errorf("calls %q: it isn't repeated", calls)
		}
		d.answer(nil)
		time.Sleep(10 * time.Minute)
		n.mustSetUp(pod("u2", "h"))
		n.mustTearDown("u2")
		time.Sleep(time.Hour)
		n.empty()
	})
}
