package storage

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestAttachmentNoLongerRequired: if a driver comes to need no attachment while a pod waits for one, the volume leaves volumesInUse before
// it is staged, so that the controller can delete the VolumeAttachment. A mounted volume stays in volumesInUse until it is unstaged.
func TestAttachmentNoLongerRequired(t *testing.T) {
	for name, mounted := range map[string]bool{"waiting": false, "mounted": true} {
		t.Run(name, func(t *testing.T) {
			dir, d := t.TempDir(), newTruth()
			synctest.Test(t, func(t *testing.T) {
				no := errors.New("not attached")
				n := start(t, dir, d, nil)
				if mounted {
					n.mustSetUp(pod("u1", "h"))
					n.expect("mark name^h", "attached name^h", "stage h s0/dev/x", "publish h u1 p0")
				} else {
					d.answer(func(_ context.Context, call string) error {
						if strings.HasPrefix(call, "attached") {
							return &Error{NotSent, no}
						}
						return nil
					})
					if err := n.setUp(pod("u1", "h")); !errors.Is(err, no) {
						t.Fatalf("error %v", err)
					}
					n.expect("mark name^h", "attached name^h")
				}
				synctest.Wait() // Nothing runs that reads these.
				n.claims.unattached, d.unattached = true, true
				n.mustSetUp(pod("u1", "h"))
				if mounted {
					n.expect()
				} else {
					n.expect("drop name^h", "stage h s0", "publish h u1 p0")
				}
				n.mustTearDown("u1")
				time.Sleep(time.Minute)
				if mounted {
					n.expect("unpublish h u1", "unstage h", "drop name^h")
				} else {
					n.expect("unpublish h u1", "unstage h")
				}
				n.empty()
			})
		})
	}
}
