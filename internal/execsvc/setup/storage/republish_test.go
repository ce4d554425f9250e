package storage

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/setup/volume"
)

// renewing starts a Storage whose drivers want repeated calls. woken has the pods that are woken.
func renewing(t *testing.T, dir string, d *truth, woken chan types.UID) *node {
	return start(t, dir, d, func(c *Config) {
		c.Republishes = func(driver string) bool { return driver == "d" }
		c.Wake = func(uid types.UID) { woken <- uid }
	})
}

// setUpAgain is a sync of a pod that runs. It returns what the pod's event says.
func (n *node) setUpAgain(uid string) (outdated string) {
	n.t.Helper()
	err := n.manager.SetUp(n.t.Context(), volume.Request{Pod: pod(uid, "h"), Outdated: func(err error) { outdated = err.Error() }})
	if err != nil {
		n.t.Errorf("the pod can't continue: %v", err)
	}
	return outdated
}

// TestRepublish: the call for a published volume is repeated with the same arguments when its pod syncs, and not more often
// than the pause allows, however often that is.
func TestRepublish(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := renewing(t, dir, d, nil)
		n.mustSetUp(pod("u1", "h"))
		d.called()
		for range 20 {
			n.setUpAgain("u1")
		}
		n.expect()
		n.claims.version++ // The arguments of new volumes change.
		time.Sleep(minRenewal * 3 / 2)
		for range 20 {
			n.setUpAgain("u1")
		}
		n.expect("republish h u1 p0")
		n.setUpAgain("u1")
		n.expect()

		// A start of podexecd may have taken long: the first sync repeats the call.
		n.stop()
		n = renewing(t, dir, d, nil)
		n.setUpAgain("u1")
		n.expect("republish h u1 p0")
		n.mustTearDown("u1")
		n.expect("unpublish h u1", "unstage h", "drop name^h")
		n.empty()
		n.stop()
	})
}

// TestRepublishUnwanted: a volume whose driver doesn't want it is published once.
func TestRepublishUnwanted(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, func(c *Config) { c.Republishes = func(string) bool { return false } })
		n.mustSetUp(pod("u1", "h"))
		d.called()
		time.Sleep(time.Hour)
		n.setUpAgain("u1")
		n.expect()
		n.stop()
	})
}

// TestRepublishFails: whatever a repeated call answers, the volume stays published and the pod continues. The pod is woken,
// its event has the failure once, and the call is repeated with a pause until it succeeds.
func TestRepublishFails(t *testing.T) {
	for name, bad := range map[string]error{
		"final":      &Error{Final, errors.New("no such secret")},
		"uncertain":  &Error{Uncertain, errors.New("no such secret")},
		"not sent":   &Error{NotSent, errors.New("no such secret")},
		"unanswered": errors.New("no such secret"),
	} {
		t.Run(name, func(t *testing.T) {
			dir, d := t.TempDir(), newTruth()
			synctest.Test(t, func(t *testing.T) {
				woken := make(chan types.UID, 100)
				n := renewing(t, dir, d, woken)
				n.mustSetUp(pod("u1", "h"))
				d.called()
				time.Sleep(minRenewal * 3 / 2)
				d.answer(func(context.Context, string) error { return bad })
				if got := n.setUpAgain("u1"); got != "" {
					t.Errorf("the event %q before the call", got)
				}
				if uid := <-woken; uid != "u1" {
					t.Errorf("woken is %s", uid)
				}
				const want = `MountVolume.SetUp failed for volume "pv-h" : no such secret`
				if got, again := n.setUpAgain("u1"), n.setUpAgain("u1"); got != want || again != "" {
					t.Errorf("events %q and %q; want %q once", got, again, want)
				}
				<-woken // It was tried again.
				d.answer(nil)
				time.Sleep(2 * maxPause)
				synctest.Wait()
				n.setUpAgain("u1")
				if calls := d.called(); len(calls) < 3 || len(calls) > 4 || strings.Join(calls, "") != strings.Repeat("republish h u1 p0", len(calls)) {
					t.Errorf("calls %q", calls)
				}
				n.mustTearDown("u1")
				synctest.Wait()
				n.empty()
				n.stop()
			})
		})
	}
}

// TestRepublishHangs: while a repeated call has no answer, the pod continues and no other call is made for the volume, also
// after a restart; the pod's end waits for the answer.
func TestRepublishHangs(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		woken := make(chan types.UID, 100)
		n := renewing(t, dir, d, woken)
		n.mustSetUp(pod("u1", "h"))
		d.called()
		time.Sleep(minRenewal * 3 / 2)
		d.answer(hang("republish"))
		n.setUpAgain("u1")
		n.expect("republish h u1 p0")
		if got := n.setUpAgain("u1"); got != "" {
			t.Errorf("the event %q", got)
		}
		n.stop()
		n = renewing(t, dir, d, woken)
		n.expect("republish h u1 p0")
		if err := n.manager.TearDown(t.Context(), "u1"); err == nil {
			t.Error("torn down while the driver executes a call")
		}
		d.called()
		d.answer(nil)
		time.Sleep(time.Hour)
		n.expect("republish h u1 p0", "unpublish h u1", "unstage h", "drop name^h")
		n.mustTearDown("u1")
		n.empty()
		n.stop()
	})
}
