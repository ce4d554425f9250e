package cluster

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/cluster/apivolumes"
	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/csidriver/fault"
	"github.com/podstream/podstream/test/rig"
)

// usage returns the series kubelet_volume_stats_NAME of the claim.
func (s *storageNode) usage(ctx context.Context) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.metrics+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // It is read to its end.
	all, labels := map[string]float64{}, fmt.Sprintf(`{namespace=%q,persistentvolumeclaim=%q}`, namespace, s.claim)
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if name, found := strings.CutPrefix(name, "kubelet_volume_stats_"); found && strings.HasSuffix(name, labels) {
			if all[strings.TrimSuffix(name, labels)], err = strconv.ParseFloat(value, 64); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// The metrics have what the driver says of a claim's volume, until the pod ends. A driver that hangs meanwhile delays nothing.
func TestClaimUsage(t *testing.T) {
	s := newStorageNode(t, "usage", false)
	pod := s.run(t, "measured")
	check(t, "the claim has six series", func(t *testing.T) {
		s.awaitRunning(t, pod)
		s.await(t, "the driver was asked", func(ctx context.Context) (bool, string) {
			all, err := s.usage(ctx)
			return len(all) == 6, fmt.Sprint(all, err)
		})
		var on unix.Statfs_t
		rig.Must(t, unix.Statfs(s.mounted(pod), &on))
		all := rig.Get(s.usage(t.Context()))(t)
		if all["capacity_bytes"] != float64(on.Blocks)*float64(on.Bsize) || all["inodes"] != float64(on.Files) || all["used_bytes"] <= 0 {
			t.Errorf("the series are %v; the file system has %d blocks of %d bytes and %d files", all, on.Blocks, on.Bsize, on.Files)
		}
	})
	check(t, "a pod whose volume is being measured ends, and so do the series", func(t *testing.T) {
		id := rig.Get(s.driver.Faults.Add(t.Context(), fault.Fault{Method: "NodeGetVolumeStats", Action: fault.Hold, Times: 1}))(t)
		s.podexecd.Kill()
		s.startExec(t) // It measures all volumes after its start.
		rig.Must(t, s.driver.Faults.Await(t.Context(), id, 1))
		remove(t, s.admin, pod.Name)
		s.awaitGone(t, pod)
		if all := rig.Get(s.usage(t.Context()))(t); len(all) > 0 {
			t.Errorf("the series are %v", all)
		}
		rig.Must(t, s.driver.Faults.Release(t.Context(), id))
		s.awaitCall(t, "NodeUnstageVolume", 1)
	})
}

// A pod whose volume the driver's controller can't attach fails, as the node can't have another volume, and the driver is asked how many
// it can have.
func TestAttachLimit(t *testing.T) {
	s := newStorageNode(t, "limit", true)
	drivers := s.admin.StorageV1().CSIDrivers()
	object := rig.Get(drivers.Get(t.Context(), s.driver.Options().Name, metav1.GetOptions{}))(t)
	object.Spec.NodeAllocatableUpdatePeriodSeconds = new(int64(36000))
	rig.Get(drivers.Update(t.Context(), object, metav1.UpdateOptions{}))(t)
	a := apivolumes.Attachment{Driver: s.driver.Options().Name, Handle: "volume"}
	attachments := s.admin.StorageV1().VolumeAttachments()
	at := rig.Get(attachments.Create(t.Context(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: a.ObjectName(s.name)},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: a.Driver, NodeName: s.name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &s.pv}},
	}, metav1.CreateOptions{}))(t)
	at.Status.AttachError = &storagev1.VolumeError{
		Time: metav1.Now(), Message: "all slots are used", ErrorCode: new(int32(codes.ResourceExhausted)),
	}
	rig.Get(attachments.UpdateStatus(t.Context(), at, metav1.UpdateOptions{}))(t)
	pod := s.run(t, "refused")
	check(t, "the pod fails after two minutes", func(t *testing.T) {
		s.await(t, "the volume is in use", func(ctx context.Context) (bool, string) {
			names, err := s.inUse(ctx)
			return len(names) == 1, fmt.Sprint(names, err)
		})
		asked := len(s.calls(t, "NodeGetInfo"))
		pods := s.admin.CoreV1().Pods(namespace)
		var now corev1.PodStatus
		var err error
		for range 2 { // podexecd waits as long as Until.
			err = control.Until(t.Context(), s.podexecd, "the pod has failed", func(ctx context.Context) error {
				got, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				if now = got.Status; now.Phase != corev1.PodFailed {
					return fmt.Errorf("%w: %+v", control.ErrNotYet, now)
				}
				return nil
			})
			if err == nil {
				break
			}
		}
		rig.Must(t, err)
		const message = "Pod was rejected: Node has reached its volume attachment limit, rejecting pod. unmounted volumes=[data-0], " +
			"unattached volumes=[data-0]"
		if r := now; r.Reason != "VolumeAttachmentLimitExceeded" || !strings.HasPrefix(r.Message, message) || !strings.Contains(r.Message, "all slots") {
			t.Errorf("the pod's status is %+v", r)
		}
		s.await(t, "the driver is asked again", func(context.Context) (bool, string) {
			n := len(s.calls(t, "NodeGetInfo"))
			return n > asked, fmt.Sprint(n)
		})
	})
	check(t, "the volume leaves volumesInUse while the pod is there", func(t *testing.T) {
		s.await(t, "the volume isn't in use", func(ctx context.Context) (bool, string) {
			names, err := s.inUse(ctx)
			return err == nil && len(names) == 0, fmt.Sprint(names, err)
		})
		remove(t, s.admin, pod.Name)
		s.awaitGone(t, pod)
		s.judge(t)
	})
}
