package volume

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/mount-utils"
)

// BenchmarkPod measures a pod with 20 volumes: set-up, mounts, a sync without a change, and tear-down; and their cost
// with mount(8) and umount(8).
func BenchmarkPod(b *testing.B) {
	b.Run("calls", func(b *testing.B) { benchmarkPod(b, kernel{mount.New("")}) })
	b.Run("programs", func(b *testing.B) { benchmarkPod(b, mount.New("")) })
}

func benchmarkPod(b *testing.B, mounter mount.Interface) {
	m := New(Config{PodDirs: realManager(b).podDirs, Mounter: mounter})
	objects := known{}
	pod := twentyVolumes(b.TempDir(), objects)
	setUp := func() error { return m.SetUp(b.Context(), Request{Pod: pod, Objects: objects}) }
	steps := []struct {
		name string
		do   func() error
		took time.Duration
	}{
		{name: "set-up", do: setUp},
		{name: "mounts", do: func() error { _, err := m.Mounts(b.Context(), pod, &pod.Spec.Containers[0], nil); return err }},
		{name: "again", do: setUp},
		{name: "tear-down", do: func() error { return m.TearDown(b.Context(), pod.UID) }},
	}
	for i := 0; b.Loop(); i++ {
		pod.UID = types.UID(fmt.Sprint("pod", i))
		for i := range steps {
			began := time.Now()
			if err := steps[i].do(); err != nil {
				b.Fatal(err)
			}
			steps[i].took += time.Since(began)
		}
	}
	for _, s := range steps {
		b.ReportMetric(float64(s.took.Microseconds())/float64(b.N), "µs/"+s.name)
	}
}

// twentyVolumes returns a pod with volumes of all kinds, three of them with subPaths, and creates its objects.
func twentyVolumes(path string, objects known) *v1.Pod {
	var volumes []v1.Volume
	for i := range 5 {
		name := fmt.Sprintf("config%d", i)
		objects[name] = "a value"
		volumes = append(volumes, configMapVolume(name))
	}
	for i := range 5 {
		name := fmt.Sprintf("secret%d", i)
		objects[name] = "a value"
		volumes = append(volumes, secretVolume(name))
	}
	labels := v1.DownwardAPIVolumeFile{Path: "labels", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}}
	for i := range 3 {
		volumes = append(volumes, v1.Volume{Name: fmt.Sprintf("projected%d", i), VolumeSource: v1.VolumeSource{
			Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
				{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "config0"}}},
				{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{labels}}},
			}},
		}})
	}
	for i := range 3 {
		volumes = append(volumes, v1.Volume{Name: fmt.Sprintf("downward%d", i), VolumeSource: v1.VolumeSource{
			DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{labels}},
		}})
	}
	volumes = append(volumes, emptyDirVolume("empty0", v1.EmptyDirVolumeSource{}), emptyDirVolume("empty1", v1.EmptyDirVolumeSource{}),
		emptyDirVolume("memory", v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}), hostPathVolume("host", path, v1.HostPathDirectory))
	pod := podWith("p", volumes...)
	mounts := pod.Spec.Containers[0].VolumeMounts
	for i := range mounts {
		switch mounts[i].Name {
		case "config0", "secret0":
			mounts[i].SubPath = "k"
		case "empty0":
			mounts[i].SubPath = "sub"
		}
	}
	return pod
}
