package storage

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
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

// someStatic resolves the claims of pods with an annotation as those of static pods: nothing attaches their volumes.
type someStatic struct{ *claims }

// Resolve is part of Claims.
func (c someStatic) Resolve(ctx context.Context, p *v1.Pod, spec *v1.Volume) (Volume, error) {
	v, err := c.claims.Resolve(ctx, p, spec)
	if p.Annotations["static"] != "" {
		v.Attaches, v.UniqueName = false, ""
	}
	return v, err
}

// TestStaticPodHasVolume: a volume that a static pod has isn't in volumesInUse, so the controller may detach it. A pod of the API server
// doesn't get it then. If both wait, it is attached for both.
func TestStaticPodHasVolume(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, func(c *Config) { c.Claims = someStatic{&claims{}} })
		static, api := pod("u1", "h"), pod("u2", "h")
		static.Annotations = map[string]string{"static": "true"}
		d.unattached = true
		n.mustSetUp(static)
		n.expect("stage h s0", "publish h u1 p0")
		if err := n.setUp(api); err == nil || !strings.Contains(err.Error(), "mounted without an attachment, for pod ns/u1") {
			t.Errorf("error %v", err)
		}
		n.expect()
		n.mustTearDown("u1")
		synctest.Wait()
		d.called()
		d.unattached = false
		n.mustSetUp(api)
		n.mustSetUp(static)
		n.expect("mark name^h", "attached name^h", "stage h s0/dev/x", "publish h u2 p0", "publish h u1 p0")
		n.mustTearDown("u1")
		n.mustTearDown("u2")
		time.Sleep(time.Minute)
		n.empty()

		d.called()
		no := errors.New("no")
		d.answer(func(_ context.Context, call string) error {
			if strings.HasPrefix(call, "stage") && !d.used("h") {
				return &Error{NotSent, no}
			}
			return nil
		})
		if err := n.setUp(static); !errors.Is(err, no) {
			t.Errorf("error %v", err)
		}
		n.expect("stage h s0")
		n.mustSetUp(api)
		n.mustSetUp(static)
		n.expect("mark name^h", "attached name^h", "stage h s0/dev/x", "publish h u1 p0", "publish h u2 p0")
		n.mustTearDown("u2")
		n.mustTearDown("u1")
		time.Sleep(time.Minute)
		n.empty()
	})
}
