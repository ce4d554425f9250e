package apivolumes

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/cluster/node"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

var (
	_ InUse   = (*node.InUse)(nil)
	_ Records = (*storage.Storage)(nil)
)

// list is an InUse, and the records of a restart.
type list struct {
	reconstructed chan struct{}
	names         []string
	complete      bool

	mu    sync.Mutex
	calls []string
}

func (l *list) Reconstructed() <-chan struct{}         { return l.reconstructed }
func (l *list) InUse() (names []string, complete bool) { return l.names, l.complete }

func (l *list) called(call string, names ...v1.UniqueVolumeName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		call += " " + string(name)
	}
	l.calls = append(l.calls, call)
}

func (l *list) Restore(names ...v1.UniqueVolumeName)     { l.called("restore", names...) }
func (l *list) RestoreSome(names ...v1.UniqueVolumeName) { l.called("restore some", names...) }

func (l *list) Mark(_ context.Context, name v1.UniqueVolumeName) error {
	l.called("mark", name)
	return nil
}

func (l *list) Drop(_ context.Context, name v1.UniqueVolumeName) error {
	l.called("drop", name)
	return nil
}

// TestRestore: the names of before the restart are given to the Node's status once they are known, and nothing is marked or
// dropped before. If they aren't complete, what the status lists stays.
func TestRestore(t *testing.T) {
	for complete, restore := range map[bool]string{true: "restore a b", false: "restore some a b"} {
		inWorld(t, func(t *testing.T, w *world) {
			l := &list{reconstructed: make(chan struct{}), names: []string{"a", "b"}, complete: complete}
			at := NewAttachments(w.Volumes, l)
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			at.Restore(ended, l)
			go at.Restore(t.Context(), l)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for _, err := range []error{at.MarkInUse(ctx, "c"), at.DropInUse(ctx, "a")} {
				if err == nil || !strings.Contains(err.Error(), "aren't known yet") {
					t.Errorf("before the records are read: %v", err)
				}
			}
			if len(l.calls) > 0 {
				t.Errorf("before the records are read: %q", l.calls)
			}
			var early sync.WaitGroup
			early.Go(func() {
				if err := at.MarkInUse(t.Context(), "c"); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			close(l.reconstructed)
			early.Wait()
			if err := at.DropInUse(t.Context(), "a"); err != nil {
				t.Error(err)
			}
			if want := []string{restore, "mark c", "drop a"}; !slices.Equal(l.calls, want) {
				t.Errorf("the calls are %q; want %q", l.calls, want)
			}
		})
	}
}

// TestAttachmentsWaitAttached: a storage.Volume's driver, handle and PersistentVolume name the VolumeAttachment.
func TestAttachmentsWaitAttached(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		at := NewAttachments(w.Volumes, nil)
		v := storage.Volume{Name: "pv-data"}
		v.Driver, v.Handle, v.UniqueName = volume.Driver, volume.Handle, string(volume.UniqueName())
		w.listed(true)
		w.attachment(true)
		if published, err := at.WaitAttached(t.Context(), v); err != nil || !maps.Equal(published, map[string]string{"device": "/dev/x"}) {
			t.Errorf("%v, %v", published, err)
		}
		v.UniqueName = "kubernetes.io/csi/d.example.com^other"
		if _, err := at.WaitAttached(t.Context(), v); err == nil || !strings.Contains(err.Error(), "^other") {
			t.Errorf("with another volume's name in volumesInUse: %v", err)
		}
	})
}

// TestAttachmentsInTree: the volume of an in-tree plugin is attached when the Node lists it. It has no VolumeAttachment.
func TestAttachmentsInTree(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		at := NewAttachments(w.Volumes, nil)
		v := storage.Volume{Plugin: "kubernetes.io/iscsi", Name: "pv-data"}
		v.UniqueName = string(volume.UniqueName()) // what w.listed lists
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := at.WaitAttached(ctx, v); err == nil || !strings.Contains(err.Error(), "is not yet in the Node's volumesAttached") {
			t.Errorf("error %v", err)
		}
		w.listed(true)
		if published, err := at.WaitAttached(t.Context(), v); err != nil || len(published) > 0 {
			t.Errorf("%v, %v", published, err)
		}
		if _, reads := w.taken(); len(reads) > 0 {
			t.Errorf("VolumeAttachments are read: %v", reads)
		}
	})
}
