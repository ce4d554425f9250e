package apiexpansion

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/directory"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/nfs"
)

const done = ` Normal ` + events.FileSystemResizeSuccessful + ` MountVolume.NodeExpandVolume succeeded for volume "pv" n1`

// TestMounted: a volume is expanded before its first container may use it, for claims of both kinds of resizers.
func TestMounted(t *testing.T) {
	for name, change := range map[string]func(*v1.PersistentVolumeClaim){
		"allocated": pending,
		"an older resizer": func(c *v1.PersistentVolumeClaim) {
			c.Status.Conditions = []v1.PersistentVolumeClaimCondition{{Type: v1.PersistentVolumeClaimFileSystemResizePending, Status: v1.ConditionTrue}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				if err := w.mount("a"); err != nil {
					t.Error(err)
				}
				w.expect(1, "a"+done, "data"+done)
				w.has("2Gi", "", 0)
				if err := w.mount("b"); err != nil {
					t.Error(err)
				}
				w.sync("a")
				w.expect(0)
			}, change)
		})
	}
}

// TestMountedFails: while the driver refuses, the pod waits. A driver that can't expand volumes in use keeps no pod waiting.
func TestMountedFails(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.driver = refusal(codes.Internal, storage.Final)
		if err := w.mount("a"); err == nil || !strings.HasSuffix(err.Error(), "desc = sorry") {
			t.Errorf("the error is %v", err)
		}
		w.has("1Gi", v1.PersistentVolumeClaimNodeResizeInProgress, 2)
		w.driver = refusal(codes.FailedPrecondition, storage.Final)
		if err := w.mount("a"); err != nil {
			t.Error(err)
		}
		w.expect(2)
		w.sync("a")
		w.expect(0)
	}, pending)
	inWorld(t, func(t *testing.T, w *world) {
		w.away = true
		if err := w.mount("a"); err == nil {
			t.Error("the pod starts with a volume that is too small")
		}
		w.expect(0)
	}, pending)
}

// TestMountedUnsupported: volumes whose backend can't expand them on the node keep no pod waiting, if the PersistentVolume says that
// they are larger: an operator has changed its capacity.
func TestMountedUnsupported(t *testing.T) {
	for name, err := range map[string]error{
		"CSI":       &storage.Error{Outcome: storage.NotSent, Err: fmt.Errorf("driver d: %w", storage.ErrNoExpand)},
		"NFS":       nfs.New(nil).Expand(t.Context(), storage.Publishing{}, ""),
		"directory": directory.NewBackend(nil).Expand(t.Context(), storage.Publishing{}, ""),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.driver = func(context.Context) error { return err }
				if err := w.mount("a"); err != nil {
					t.Error(err)
				}
				w.has("1Gi", "", 0)
				w.expect(1)
				w.sync("a")
				w.expect(0)
			})
		})
	}
}

// TestReadOnly: a pod that only reads a volume starts, with an event.
func TestReadOnly(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		p, spec := pod("a")
		spec.PersistentVolumeClaim.ReadOnly = true
		if err := w.Mounted(t.Context(), p, spec); err != nil {
			t.Error(err)
		}
		const event = ` Warning ` + events.FileSystemResizeFailed + ` MountVolume.NodeExpandVolume failed for volume "pv" requested read-only file system`
		w.expect(0, "a"+event, "data"+event)
		w.Synced(p, spec)
		w.expect(0)
	}, pending)
}

// TestStatic: the claim of a static pod isn't one at the API server, also if that has one of its name. It isn't read or expanded.
func TestStatic(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.away = true
		p, spec := pod("a")
		p.Annotations = map[string]string{podmeta.SourceAnnotation: "file"}
		if err := w.Mounted(t.Context(), p, spec); err != nil {
			t.Error(err)
		}
		w.grow("8Gi")
		w.Synced(p, spec)
		w.expect(0)
	}, pending)
}
