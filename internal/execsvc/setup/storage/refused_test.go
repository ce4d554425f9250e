package storage

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestUnstageRefused: a driver that refuses to unstage a volume keeps no later pod from it. The volume is staged again first, also after a
// restart, and unstaged when no pod wants it.
func TestUnstageRefused(t *testing.T) {
	for name, out := range map[string]Outcome{"final": Final, "uncertain": Uncertain} {
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
