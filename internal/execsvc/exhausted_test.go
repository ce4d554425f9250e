package execsvc

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/decide/attachlimit"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
)

// refused is a volume.Plugin of volumes that can't be set up: emptyDirs, by name.
type refused map[string]error

func (refused) Name() string                                     { return "example.com/refused" }
func (r refused) Takes(spec *v1.Volume) bool                     { return r[spec.Name] != nil }
func (r refused) SetUp(_ context.Context, v volume.Volume) error { return r[v.Name] }
func (refused) Source(v volume.Volume) volume.Source             { return volume.Source{Path: v.Dir} }
func (refused) TearDown(context.Context, volume.Volume) error    { return nil }

// withEmptyDirs returns the pod with emptyDirs that its container mounts.
func withEmptyDirs(pod *v1.Pod, names ...string) *v1.Pod {
	for _, name := range names {
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}})
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
	}
	return pod
}

// TestAttachLimit: a pod of the API server whose volume the node can't have attached fails with the kubelet's reason and message, and
// its volumes are torn down. Other pods wait, also one that merely waits for an attachment.
func TestAttachLimit(t *testing.T) {
	n := newNode(t)
	n.final = func(pod *v1.Pod) bool { return podmeta.Source(pod) == "api" }
	full := &volume.OperationError{Operation: "MountVolume.WaitForAttach", Volume: "pv-1", Err: &attachlimit.ExceededError{Err: errors.New("no slot")}}
	n.plugins = []volume.Plugin{refused{"full": full, "late": errors.New("not yet attached")}}
	l := n.start()
	l.deliver(ops(change(client.Add, true,
		withEmptyDirs(newPod("a", "db", "api"), "late", "full", "scratch"), withEmptyDirs(newPod("b", "queue", "api"), "late"),
		withEmptyDirs(newPod("c", "static", "file"), "full"),
	)))
	p := l.await("a", "has failed", func(p podview.Pod) bool { return p.State == finished && p.Status.Phase == v1.PodFailed })
	const message = "Node has reached its volume attachment limit, rejecting pod. unmounted volumes=[full late], unattached volumes=[full], " +
		"failed to process volumes=[]: no slot"
	if p.Status.Reason != "VolumeAttachmentLimitExceeded" || p.Status.Message != "Pod was rejected: "+message || len(p.Status.ContainerStatuses) > 0 {
		t.Errorf("the status is %+v", p.Status)
	}
	l.awaitEvent("a", "VolumeAttachmentLimitExceeded", message)
	l.awaitEvent("b", events.FailedMountVolume, "not yet attached")
	l.awaitEvent("c", events.FailedMountVolume, "no slot")
	for _, uid := range []types.UID{"b", "c"} {
		l.await(uid, "waits", func(p podview.Pod) bool {
			return p.Status != nil && p.Status.Phase == v1.PodPending && p.State == syncing
		})
	}
	l.wantMetrics(map[string]float64{"kubelet_admission_rejections_total{reason=VolumeAttachmentLimitExceeded}": 1})
	if exists(t, filepath.Join(n.podsDir, "a", "volumes")) {
		t.Error("the volumes of the failed pod are still there")
	}
	n.wantUnchanged()
}
