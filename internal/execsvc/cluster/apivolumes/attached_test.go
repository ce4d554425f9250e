package apivolumes

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

var volume = Attachment{Driver: "d.example.com", Handle: "h1"}

// attachment stores a VolumeAttachment of the volume to this node.
func (w *world) attachment(attached bool, change ...func(*storagev1.VolumeAttachment)) {
	name := volume.ObjectName("n1")
	at := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "at"}}
	at.Spec = storagev1.VolumeAttachmentSpec{
		Attacher: volume.Driver, NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("pv-data")},
	}
	at.Status = storagev1.VolumeAttachmentStatus{Attached: attached, AttachmentMetadata: map[string]string{"device": "/dev/x"}}
	for _, f := range change {
		f(at)
	}
	w.set(func() { w.objects["volumeattachments/"+name] = at })
}

// listed has the Node's volumesAttached list the volume, or no volume.
func (w *world) listed(is bool) {
	w.set(func() {
		w.attached = nil
		if is {
			w.attached = []v1.AttachedVolume{{Name: "other"}, {Name: volume.UniqueName()}}
		}
	})
	w.AttachedChanged()
}

// TestAttachmentNames: upstream's controllers make the same names.
func TestAttachmentNames(t *testing.T) {
	if got := volume.UniqueName(); got != "kubernetes.io/csi/d.example.com^h1" {
		t.Errorf("the unique name is %s", got)
	}
	// sha256sum of "h1d.example.comn1".
	if got := volume.ObjectName("n1"); got != "csi-b078b22d1096952a15ef3207f7f853696502bd1e6a5ae841d5eb413fc87f8ee8" {
		t.Errorf("the attachment's name is %s", got)
	}
}

// TestWaitAttached: the wait ends when the Node lists the volume, and its VolumeAttachment says that it is attached. The object
// isn't read before the Node lists the volume.
func TestWaitAttached(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		type result struct {
			context map[string]string
			err     error
		}
		done := make(chan result, 1)
		go func() {
			published, err := w.WaitAttached(t.Context(), volume)
			done <- result{published, err}
		}()
		pass(time.Hour)
		if _, reads := w.taken(); len(reads) > 0 {
			t.Errorf("before the Node lists the volume: %v", reads)
		}
		w.listed(true)
		pass(time.Minute)
		w.attachment(false)
		pass(time.Minute)
		select {
		case got := <-done:
			t.Fatalf("the wait ended before the volume was attached: %v", got)
		default:
		}
		if _, reads := w.taken(); reads["volumeattachments/"+volume.ObjectName("n1")] < 5 {
			t.Errorf("the reads of two minutes: %v", reads)
		}
		w.attachment(true)
		pass(2 * lastPause)
		if got := <-done; got.err != nil || !maps.Equal(got.context, map[string]string{"device": "/dev/x"}) {
			t.Errorf("the result is %v", got)
		}
	})
}

// TestNotAttached: an attachment of something else, or one that goes, isn't believed. The error says what is missing.
func TestNotAttached(t *testing.T) {
	now := metav1.Now()
	for _, tc := range []struct {
		name     string
		unlisted bool
		attached bool
		change   func(*storagev1.VolumeAttachment)
		want     string
	}{
		{name: "not listed", unlisted: true, attached: true, want: "not yet in the Node's volumesAttached"},
		{name: "not attached", want: "volume attachment isn't attached yet"},
		{name: "failed", change: func(a *storagev1.VolumeAttachment) {
			a.Status.AttachError = &storagev1.VolumeError{Message: "no such disk"}
		}, want: "no such disk"},
		{name: "another node's", attached: true, change: func(a *storagev1.VolumeAttachment) { a.Spec.NodeName = "n2" }, want: "node n2"},
		{name: "another driver's", attached: true, change: func(a *storagev1.VolumeAttachment) { a.Spec.Attacher = "e" }, want: "driver e"},
		{name: "going", attached: true, change: func(a *storagev1.VolumeAttachment) { a.DeletionTimestamp = &now }, want: "being deleted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.listed(!tc.unlisted)
				w.attachment(tc.attached, func(a *storagev1.VolumeAttachment) {
					if tc.change != nil {
						tc.change(a)
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if published, err := w.WaitAttached(ctx, volume); err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%v, %v; want %q", published, err, tc.want)
				}
			})
		})
	}
}

// TestTwoVolumesOfOneHandle: a PersistentVolume is attached also if the attachment was made for another one with its handle. The controller
// makes no other one, so the pod would wait forever.
func TestTwoVolumesOfOneHandle(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.listed(true)
		w.attachment(true, func(a *storagev1.VolumeAttachment) { a.Spec.Source.PersistentVolumeName = ptr.To("pv-2") })
		v := storage.Volume{Key: record.Key{Driver: volume.Driver, Handle: volume.Handle}, Name: "pv-data"}
		v.UniqueName = string(volume.UniqueName())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if published, err := NewAttachments(w.Volumes, nil).WaitAttached(ctx, v); err != nil || published["device"] != "/dev/x" {
			t.Errorf("%v, %v", published, err)
		}
	})
}
