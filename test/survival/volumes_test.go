package survival

import (
	"os"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// supply selects the volumes of the pods of a kind.
type supply int

const (
	// few is the directory of the diaries, and a scratch volume in memory.
	few supply = iota
	// objects adds a ConfigMap and a Secret, which stand in the pod's manifest. Their content changes with its
	// label.
	objects
	// all adds one volume of each other type: projected, downwardAPI, on disk, and a subPath of that; and
	// variables from the objects.
	all
)

// privileged reports whether this process may mount and create cgroups: then each pod has some, which must be
// removed.
func privileged() bool { return os.Geteuid() == 0 }

// volumes returns the volumes of a pod of that name.
func (s supply) volumes(name, life string) []v1.Volume {
	scratch := v1.EmptyDirVolumeSource{}
	if privileged() {
		scratch.Medium = v1.StorageMediumMemory
	}
	settings := v1.LocalObjectReference{Name: name}
	volumes := []v1.Volume{
		{Name: "life", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: life, Type: ptr.To(v1.HostPathDirectory)}}},
		{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &scratch}},
		{Name: "settings", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: settings}}},
		{Name: "login", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: name}}},
		{Name: "mix", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: settings}},
			{Secret: &v1.SecretProjection{LocalObjectReference: settings}},
			{DownwardAPI: &v1.DownwardAPIProjection{Items: nameFile()}},
		}}}},
		{Name: "about", VolumeSource: v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: nameFile()}}},
		{Name: "disk", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
	}
	return volumes[:s.count(len(volumes))]
}

// nameFile returns a file with the pod's name.
func nameFile() []v1.DownwardAPIVolumeFile {
	return []v1.DownwardAPIVolumeFile{{Path: "name", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}}
}

// mounts returns the mounts of the volumes, the same in each container.
func (s supply) mounts() []v1.VolumeMount {
	mounts := []v1.VolumeMount{
		{Name: "life", MountPath: "/life"}, {Name: "scratch", MountPath: "/scratch"},
		{Name: "settings", MountPath: "/settings"}, {Name: "login", MountPath: "/login"},
		{Name: "mix", MountPath: "/mix"}, {Name: "about", MountPath: "/about"}, {Name: "disk", MountPath: "/disk"},
		{Name: "disk", MountPath: "/part", SubPath: "a/part"},
	}
	return mounts[:s.count(len(mounts))]
}

// count returns the number of volumes, or mounts, that the supply has. A Secret is never written to disk, so it
// needs a mount.
func (s supply) count(whole int) int {
	switch {
	case s == few || !privileged():
		return 2
	case s == objects:
		return 4
	default:
		return whole
	}
}

// envFrom returns the sources of each container's variables FOLDER and FILE.
func (s supply) envFrom(name string) []v1.EnvFromSource {
	if s != all || !privileged() {
		return nil
	}
	reference := v1.LocalObjectReference{Name: name}
	return []v1.EnvFromSource{
		{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: reference}}, {SecretRef: &v1.SecretEnvSource{LocalObjectReference: reference}},
	}
}

// objects returns the objects that the pod of that name refers to.
func (s supply) objects(name, label string) []any {
	if s == few || !privileged() {
		return nil
	}
	meta := metav1.ObjectMeta{Name: name}
	return []any{
		v1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta,
			Data: map[string]string{"FOLDER": "/settings", "LABEL": label},
		},
		v1.Secret{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: meta,
			StringData: map[string]string{"FILE": "FOLDER", "PASSWORD": label},
		},
	}
}

// finds returns the command of a container that exits with 0 if all volumes and variables are as expected.
func finds() []string {
	if !privileged() {
		return []string{"exit", "0"}
	}
	return []string{
		"seq", "exists", "$(FOLDER)/$(FILE)", ";", "exists", "/login/PASSWORD", ";", "exists", "/mix/LABEL", ";", "exists", "/mix/PASSWORD", ";",
		"exists", "/mix/name", ";", "exists", "/about/name", ";", "write", "/scratch/x", "x", ";", "write", "/part/x", "x", ";",
		"exists", "/disk/a/part/x",
	}
}
