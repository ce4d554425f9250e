package podsetup

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/objects"
	"github.com/podstream/podstream/internal/execsvc/setup/cgroup"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// A removed ConfigMap doesn't stop a pod that has it: the volume stays as it was, and the pod gets an event.
func TestRemovedObject(t *testing.T) {
	ref := objects.Ref{Source: "file", Kind: objects.ConfigMap, Namespace: "default", Name: "conf"}
	updates := []client.ObjectEvent{
		{Put: []client.Object{{ObjectRef: ref, Digest: "1", ConfigMap: &v1.ConfigMap{Data: map[string]string{"k": "text"}}}}},
		{Missing: []objects.Ref{ref}},
	}
	known := objects.New(objects.Config{Watch: func(
		ctx context.Context, _ client.ObjectOptions, handle func(context.Context, client.ObjectEvent) error,
	) error {
		next := updates[0]
		updates = updates[1:]
		return handle(ctx, next)
	}})
	send := func() {
		t.Helper()
		if err := known.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	cgroups, err := cgroup.New(cgroup.Config{})
	if err != nil {
		t.Fatal(err)
	}
	dir, happened := t.TempDir(), events.New(events.Config{})
	w := New(Config{
		PodDirs: kubeletdir.Pods{Current: dir}, Volumes: volume.New(volume.Config{PodDirs: kubeletdir.Pods{Current: dir}}), Cgroups: cgroups, Objects: known, Events: happened,
		HostIPs: func() []string { return nil },
	})
	source := &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "conf"}}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			UID: "a", Namespace: "default", Name: "web", Annotations: map[string]string{"kubernetes.io/config.source": "file"},
		},
		Spec: v1.PodSpec{
			Volumes:    []v1.Volume{{Name: "c", VolumeSource: v1.VolumeSource{ConfigMap: source}}},
			Containers: []v1.Container{{Name: "main", VolumeMounts: []v1.VolumeMount{{Name: "c", MountPath: "/c"}}}},
		},
	}
	for range 2 {
		send()
		if err := w.SetUp(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "a/volumes/kubernetes.io~configmap/c/k"))
	if err != nil || string(text) != "text" {
		t.Errorf("the volume has %q, %v", text, err)
	}
	all, _, _ := happened.After(0)
	if len(all) != 1 || all[0].Reason != events.FailedMountVolume || !strings.Contains(all[0].Message, `configmap "conf" not found`) {
		t.Errorf("events: %+v", all)
	}
}
