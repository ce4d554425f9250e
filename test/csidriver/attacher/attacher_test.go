package attacher

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/podstream/podstream/test/csidriver"
	"github.com/podstream/podstream/test/csidriver/calllog"
	"github.com/podstream/podstream/test/csidriver/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come.
const patience = time.Minute

const driverName, volume, pvName = "csi.podstream.test", "volume-1", "pv"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bench is an attacher of a driver, with two nodes and a PersistentVolume.
type bench struct {
	client *fake.Clientset
	driver *csidriver.Driver
	watch  watch.Interface
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "attacher") // t.TempDir is too long for the name of a socket.
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := &bench{client: fake.NewClientset(&corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: pvName},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: volume}},
		},
	}, csiNode("a"), csiNode("b"))}
	b.driver, err = csidriver.Start(csidriver.Options{
		Name: driverName, NodeID: "controller", OtherNodes: []string{"id-a", "id-b"}, AttachRequired: true, Dir: filepath.Join(dir, "d"), Volumes: []string{volume},
	})
	must(t, err)
	t.Cleanup(b.driver.Stop)
	watching := make(chan struct{}, 10)
	// Objects that are made before a watch begins are lost: the fake server has no resource versions.
	b.client.PrependWatchReactor("volumeattachments", func(action k8stesting.Action) (bool, watch.Interface, error) {
		w, err := b.client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		watching <- struct{}{}
		return true, w, err
	})
	b.watch, err = b.client.StorageV1().VolumeAttachments().Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	t.Cleanup(b.watch.Stop)
	a, err := Start(b.client, driverName, b.driver.Options().Endpoint)
	must(t, err)
	t.Cleanup(a.Stop)
	<-watching // of the test
	<-watching // of the attacher
	return b
}

// csiNode is a node that has the driver. Its ID for the driver isn't its name.
func csiNode(name string) *storagev1.CSINode {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driverName, NodeID: "id-" + name}}},
	}
}

// ask creates the VolumeAttachment of a node.
func (b *bench) ask(t *testing.T, node, attacher string) {
	t.Helper()
	_, err := b.client.StorageV1().VolumeAttachments().Create(t.Context(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: attacher, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new(pvName)}},
	}, metav1.CreateOptions{})
	must(t, err)
}

// await waits for a change of the node's VolumeAttachment.
func (b *bench) await(t *testing.T, what string, good func(*storagev1.VolumeAttachment) bool) *storagev1.VolumeAttachment {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case event := <-b.watch.ResultChan():
			if va, is := event.Object.(*storagev1.VolumeAttachment); is && good(va) {
				return va
			}
		case <-late:
			t.Fatalf("wait until %s: the calls are %v", what, b.calls(t))
		}
	}
}

// remove marks the node's VolumeAttachment as deleted, as the API server does with an object that has finalizers.
func (b *bench) remove(t *testing.T, va *storagev1.VolumeAttachment) {
	t.Helper()
	va = va.DeepCopy()
	va.DeletionTimestamp = new(metav1.Now())
	_, err := b.client.StorageV1().VolumeAttachments().Update(t.Context(), va, metav1.UpdateOptions{})
	must(t, err)
}

// calls returns the calls of the controller until now.
func (b *bench) calls(t *testing.T) []*calllog.Call {
	t.Helper()
	log, err := calllog.Read(b.driver.Options().Log)
	must(t, err)
	return log.Of("ControllerPublishVolume", "ControllerUnpublishVolume")
}

// TestAttach: a volume is attached, and detached from a node whose objects are gone. Then another node gets it, after an error.
func TestAttach(t *testing.T) {
	b := newBench(t)
	b.ask(t, "elsewhere", "other.csi.podstream.test")
	b.ask(t, "a", driverName)
	va := b.await(t, "the volume is attached", func(va *storagev1.VolumeAttachment) bool { return va.Status.Attached })
	if va.Name != "a" || !slices.Contains(va.Finalizers, finalizer) || len(va.Status.AttachmentMetadata) == 0 {
		t.Errorf("the attachment is %+v; want that of node a, with the finalizer and the publish context", va)
	}
	b.ask(t, "b", driverName)
	b.await(t, "node b's attachment has an error", func(va *storagev1.VolumeAttachment) bool { return va.Name == "b" && va.Status.AttachError != nil })

	must(t, b.client.StorageV1().CSINodes().Delete(t.Context(), "a", metav1.DeleteOptions{}))
	id, err := b.driver.Faults.Add(t.Context(), fault.Fault{Method: "ControllerUnpublishVolume", Action: fault.Fail, Code: codes.Unavailable, Times: 2})
	must(t, err)
	b.remove(t, va)
	must(t, b.driver.Faults.Await(t.Context(), id, 2))
	b.await(t, "the failure is reported", func(va *storagev1.VolumeAttachment) bool { return va.Name == "a" && va.Status.DetachError != nil })
	b.await(t, "node a's attachment is let go", func(va *storagev1.VolumeAttachment) bool { return va.Name == "a" && len(va.Finalizers) == 0 })
	va = b.await(t, "the volume is attached to b", func(va *storagev1.VolumeAttachment) bool { return va.Name == "b" && va.Status.Attached })
	if va.Status.AttachError != nil {
		t.Errorf("the attachment keeps the error %+v", va.Status.AttachError)
	}
	must(t, b.client.CoreV1().PersistentVolumes().Delete(t.Context(), pvName, metav1.DeleteOptions{}))
	b.remove(t, va)
	b.await(t, "node b's attachment is let go", func(va *storagev1.VolumeAttachment) bool { return va.Name == "b" && len(va.Finalizers) == 0 })
	last := b.calls(t)
	if c := last[len(last)-1]; c.Method != "ControllerUnpublishVolume" || c.Volume != volume || c.Code != codes.OK {
		t.Errorf("the last call is %v; want that the volume is detached", c)
	}
	other, err := b.client.StorageV1().VolumeAttachments().Get(t.Context(), "elsewhere", metav1.GetOptions{})
	must(t, err)
	if len(other.Finalizers) > 0 || other.Status.AttachError != nil {
		t.Errorf("the attachment of another driver was changed: %+v", other)
	}
}
