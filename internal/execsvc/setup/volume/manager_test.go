package volume

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestSetUpRejects(t *testing.T) {
	for name, c := range map[string]struct {
		pod  *v1.Pod
		want string
	}{
		"a uid that leads elsewhere":  {podWith("../u"), "UID"},
		"an empty uid":                {podWith(""), "UID"},
		"a name that leads elsewhere": {podWith("u", emptyDirVolume("../../x", v1.EmptyDirVolumeSource{})), "name"},
		"a dotted name":               {podWith("u", emptyDirVolume(".new-1", v1.EmptyDirVolumeSource{})), "name"},
		"a long name":                 {podWith("u", emptyDirVolume(strings.Repeat("x", 256), v1.EmptyDirVolumeSource{})), "name"},
		"huge pages unrequested":      {podWith("u", emptyDirVolume("v", v1.EmptyDirVolumeSource{Medium: v1.StorageMediumHugePages})), "HugePages"},
		"an unknown medium":           {podWith("u", emptyDirVolume("v", v1.EmptyDirVolumeSource{Medium: "Tape"})), "Tape"},
		"a secret without objects":    {podWith("u", secretVolume("v")), "are not available"},
		"a kind without a plugin":     {podWith("u", v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{}}}), "iscsi"},
		"a volume of no type":         {podWith("u", v1.Volume{Name: "v"}), "without a source"},
		"a relative hostPath":         {podWith("u", hostPathVolume("v", "etc", "")), "absolute"},
		"a hostPath with dots":        {podWith("u", hostPathVolume("v", "/tmp/../etc", "")), "absolute"},
		"a hostPath of unknown type":  {podWith("u", hostPathVolume("v", "/tmp", "Pipe")), "Pipe"},
	} {
		m := newManager(t)
		if err := m.SetUp(t.Context(), Request{Pod: c.pod}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v doesn't mention %q", name, err, c.want)
		}
	}
}

func TestSetUpEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := newManager(t)
	err := m.SetUp(ctx, Request{Pod: podWith("u", emptyDirVolume("v", v1.EmptyDirVolumeSource{}))})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v after its context ended", err)
	}
}

// TestSetUpGoesThroughAll: a volume that fails doesn't keep the others from being set up, and the error has the
// kubelet's message of each failure.
func TestSetUpGoesThroughAll(t *testing.T) {
	m := newManager(t)
	pod := podWith("u1", configMapVolume("one"), configMapVolume("here"), configMapVolume("two"),
		emptyDirVolume("data", v1.EmptyDirVolumeSource{}))
	err := m.SetUp(t.Context(), Request{Pod: pod, Objects: known{"here": "x"}})
	want := `MountVolume.SetUp failed for volume "one" : configmap "one" not found
MountVolume.SetUp failed for volume "two" : configmap "two" not found`
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	there(t, dirOf(t, m, pod, "data"))
	holds(t, filepath.Join(dirOf(t, m, pod, "here"), "k"), "x")

	setUpWith(t, m, pod, known{"here": "x", "one": "1", "two": "2"})
	holds(t, filepath.Join(dirOf(t, m, pod, "two"), "k"), "2")
}

// TestVolumesOfEphemeralContainers: a volume that only an ephemeral container uses can keep that container from
// starting, but not the pod.
func TestVolumesOfEphemeralContainers(t *testing.T) {
	m := newManager(t)
	pod := podWith("u1", emptyDirVolume("data", v1.EmptyDirVolumeSource{}))
	pod.Spec.Volumes = append(pod.Spec.Volumes, configMapVolume("late"))
	pod.Spec.EphemeralContainers = make([]v1.EphemeralContainer, 1)
	pod.Spec.EphemeralContainers[0].VolumeMounts = []v1.VolumeMount{{Name: "late"}, {Name: "data"}}
	debug := (*v1.Container)(&pod.Spec.EphemeralContainers[0].EphemeralContainerCommon)
	req := Request{Pod: pod, Objects: known{}}
	if err := m.SetUp(t.Context(), req); err != nil {
		t.Errorf("the pod waits for it: %v", err)
	}
	if err := m.SetUpFor(t.Context(), req, &pod.Spec.Containers[0]); err != nil {
		t.Errorf("a container that doesn't use it waits for it: %v", err)
	}
	err := m.SetUpFor(t.Context(), req, debug)
	if want := `MountVolume.SetUp failed for volume "late" : configmap "late" not found`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	req.Objects = known{"late": "x"}
	if err := m.SetUpFor(t.Context(), req, debug); err != nil {
		t.Error(err)
	}
	holds(t, filepath.Join(dirOf(t, m, pod, "late"), "k"), "x")
}

// TestUnusedVolumes: a volume that no container uses isn't set up, so it can't keep a pod from starting.
func TestUnusedVolumes(t *testing.T) {
	m := newManager(t)
	volume := func(name string) v1.Volume { return emptyDirVolume(name, v1.EmptyDirVolumeSource{}) }
	pod := podWith("u1", volume("main"))
	pod.Spec.Volumes = append(pod.Spec.Volumes,
		volume("init"), volume("ephemeral"), volume("env"), volume("unused"), configMapVolume("missing"))
	pod.Spec.InitContainers = []v1.Container{{VolumeMounts: []v1.VolumeMount{{Name: "init"}}}}
	pod.Spec.EphemeralContainers = make([]v1.EphemeralContainer, 1)
	pod.Spec.EphemeralContainers[0].VolumeMounts = []v1.VolumeMount{{Name: "ephemeral"}}
	fromFile := &v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{VolumeName: "env"}}
	pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "plain"}, {Name: "file", ValueFrom: fromFile}}
	setUp(t, m, pod)
	for _, name := range []string{"main", "init", "ephemeral", "env"} {
		there(t, dirOf(t, m, pod, name))
	}
	gone(t, dirOf(t, m, pod, "unused"))
}

func TestPodsOnDisk(t *testing.T) {
	m := newManager(t)
	if got, err := m.PodsOnDisk(); err != nil || len(got) > 0 {
		t.Errorf("before any pod: %v, %v", got, err)
	}
	for _, uid := range []types.UID{"u1", "u2"} {
		setUp(t, m, podWith(uid))
	}
	write(t, filepath.Join(m.podDirs.Current, "a-file"), "x")
	got, err := m.PodsOnDisk()
	if err != nil {
		t.Fatal(err)
	}
	if slices.Sort(got); !slices.Equal(got, []types.UID{"u1", "u2"}) {
		t.Errorf("pods %v, want u1 and u2", got)
	}
}
