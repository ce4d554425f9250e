package csivolume

import (
	"errors"
	"os"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/blockdevice"
	"github.com/podstream/podstream/internal/roottest"
)

// TestBlockPublishAgain: a repeated call changes nothing of a block volume that containers use, whatever the driver answers. If the driver
// refuses it, the published device and the pod's link stay. If it exchanges the device, that is an error: the first device stays held,
// and the link leads to it.
func TestBlockPublishAgain(t *testing.T) {
	for name, test := range map[string]struct {
		links bool
		want  string
	}{"bound": {false, "was published"}, "linked": {true, "isn't the link"}} {
		t.Run(name, func(t *testing.T) {
			n, other := newBlockBench(t), roottest.LoopDevice(t)
			n.links = test.links
			_, _, p := n.resolved(pod())
			must(t, n.Publish(t.Context(), p), n.CheckDevice(p))
			first, _, err := blockdevice.Held(n.tag())
			must(t, err)
			link, err := os.Readlink(n.link())
			must(t, err)
			stays := func() {
				t.Helper()
				n.leadsTo(link)
				if held, is, err := blockdevice.Held(n.tag()); held != first || !is || err != nil {
					t.Errorf("held: %v, %v (%v); want %v", held, is, err, first)
				}
			}

			p.Again = true
			n.driver.fails(nil) // It is published already.
			must(t, n.Publish(t.Context(), p), n.CheckDevice(p))
			stays()

			n.driver.fails(status.Error(codes.InvalidArgument, "bad token"))
			if err := n.Publish(t.Context(), p); storage.OutcomeOf(err) != storage.Final {
				t.Errorf("the error %v; want a final one", err)
			}
			must(t, n.CheckDevice(p))
			stays()

			n.driver.does(func(r proto.Message) error {
				switch {
				case !is[*csipb.NodePublishVolumeRequest](r):
					return nil
				case n.links:
					return errors.Join(os.Remove(n.published()), os.Symlink(other, n.published()))
				default:
					return unix.Mount(other, n.published(), "", unix.MS_BIND, "")
				}
			})
			isUncertain(t, n.Publish(t.Context(), p), test.want)
			stays()

			n.driver.does(func(proto.Message) error {
				for range 2 {
					_ = unix.Unmount(n.published(), unix.UMOUNT_NOFOLLOW)
				}
				return os.Remove(n.published())
			})
			must(t, n.Unpublish(t.Context(), p))
			isGone(t, n.link(), n.published())
			n.isHeld(false)
		})
	}
}

// is reports whether a request is of that type.
func is[T proto.Message](r proto.Message) bool {
	_, ok := r.(T)
	return ok
}
