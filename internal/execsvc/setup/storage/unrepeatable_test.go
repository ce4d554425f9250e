package storage

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/setup/volume"
)

// TestUnrepeatable: a call without an answer whose secret is gone is repeated while a pod wants the volume. Without one the volume is
// undone: it could never be unmounted otherwise.
func TestUnrepeatable(t *testing.T) {
	for _, kind := range []string{"stage", "publish"} {
		t.Run(kind, func(t *testing.T) {
			dir, d := t.TempDir(), newTruth()
			synctest.Test(t, func(t *testing.T) {
				d.answer(hang(kind))
				n := start(t, dir, d, nil)
				p := pod("u1", "h")
				if err := n.setUp(p); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("error %v", err)
				}
				gone := &Error{Unrepeatable, errors.New("secret not found")}
				d.answer(func(_ context.Context, call string) error {
					if strings.HasPrefix(call, kind) {
						return gone
					}
					return nil
				})
				if err := n.setUp(p); !errors.Is(err, gone) {
					t.Fatalf("error %v", err)
				}
				time.Sleep(time.Hour)
				for _, call := range d.called() {
					if strings.HasPrefix(call, "un") {
						t.Errorf("%s, and the pod waits for the volume", call)
					}
				}
				deadline := time.Now().Add(10 * time.Minute)
				for n.manager.TearDown(t.Context(), "u1") != nil {
					if time.Now().After(deadline) {
						t.Fatal("the volume can't be torn down")
					}
					time.Sleep(time.Second)
				}
				time.Sleep(10 * time.Minute)
				calls := d.called()
				if undone := strings.Join(calls, "\n"); !strings.Contains(undone, "un"+kind+" h") {
					t.Errorf("it isn't undone: %v", calls)
				}
				n.empty()
			})
		})
	}
}

// TestUnrepeatableRepublish: a repeated call without an answer whose secret is gone keeps neither its pod running nor its end. While the pod
// runs, the volume stays published; then it is undone in the usual order, also after a restart of podexecd.
func TestUnrepeatableRepublish(t *testing.T) {
	for name, restart := range map[string]bool{"running": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			dir, d := t.TempDir(), newTruth()
			synctest.Test(t, func(t *testing.T) {
				woken := make(chan types.UID, 1000)
				n := renewing(t, dir, d, woken)
				n.mustSetUp(pod("u1", "h"))
				time.Sleep(minRenewal * 3 / 2)
				d.answer(hang("republish"))
				n.setUpAgain("u1")
				<-woken // The call timed out, and has no answer.
				d.answer(func(_ context.Context, call string) error {
					if strings.HasPrefix(call, "republish") {
						return &Error{Unrepeatable, errors.New("secret not found")}
					}
					return nil
				})
				time.Sleep(time.Hour)
				if restart {
					n.stop()
					n = renewing(t, dir, d, woken)
				}
				n.setUpAgain("u1")
				synctest.Wait()
				for _, call := range d.called() {
					if strings.HasPrefix(call, "un") {
						t.Errorf("%s, and the pod runs", call)
					}
				}
				deadline := time.Now().Add(10 * time.Minute)
				for n.manager.TearDown(t.Context(), "u1") != nil {
					if time.Now().After(deadline) {
						t.Fatal("the volume can't be torn down")
					}
					time.Sleep(time.Second)
				}
				synctest.Wait()
				calls := slices.DeleteFunc(d.called(), func(c string) bool { return strings.HasPrefix(c, "republish") })
				if want := []string{"unpublish h u1", "unstage h", "drop name^h"}; !slices.Equal(calls, want) {
					t.Errorf("calls %q; want %q", calls, want)
				}
				n.empty()
				n.stop()
			})
		})
	}
}

// TestUnrepeatableFirstCall: a call that can't be made has made nothing.
func TestUnrepeatableFirstCall(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		gone := &Error{Unrepeatable, errors.New("secret not found")}
		d.answer(func(_ context.Context, call string) error {
			if strings.HasPrefix(call, "stage") {
				return gone
			}
			return nil
		})
		n := start(t, dir, d, nil)
		if err := n.manager.SetUp(t.Context(), volume.Request{Pod: pod("u1", "h")}); !errors.Is(err, gone) {
			t.Fatalf("error %v", err)
		}
		n.mustTearDown("u1")
		n.empty()
		for _, call := range d.called() {
			if strings.HasPrefix(call, "un") {
				t.Errorf("%s of a volume that was never staged", call)
			}
		}
	})
}
