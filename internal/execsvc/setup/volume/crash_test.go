package volume

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestRecoversFromACrash: after a kill between any two steps of SetUp, Mounts or TearDown, the next SetUp completes
// the volumes, and TearDown removes everything.
func TestRecoversFromACrash(t *testing.T) {
	for name, crash := range map[string]func(m *Manager, pod *v1.Pod) error{
		"nothing but the pod's directory": func(m *Manager, pod *v1.Pod) error { return os.MkdirAll(m.podDir(pod.UID), dirMode) },
		"a draft": func(m *Manager, pod *v1.Pod) error {
			return os.MkdirAll(filepath.Join(m.podDir(pod.UID), "volumes/kubernetes.io~empty-dir/.new-1"), dirMode)
		},
		"a mount point without its mount": func(m *Manager, pod *v1.Pod) error {
			return os.MkdirAll(dirOf(t, m, pod, "s"), dirMode)
		},
		"a mount without content": func(m *Manager, pod *v1.Pod) error {
			return mountTmpfs(m.mounter, dirOf(t, m, pod, "s"), access{mode: emptyDirMode}, 0)
		},
		"half a content": func(m *Manager, pod *v1.Pod) error {
			half := filepath.Join(dirOf(t, m, pod, "cm"), "..2026_01_01_00_00_00.1")
			return errors.Join(os.MkdirAll(half, 0o755), os.WriteFile(filepath.Join(half, "k"), []byte("ha"), 0o600))
		},
		"a subPath that isn't bound": func(m *Manager, pod *v1.Pod) error {
			return os.MkdirAll(filepath.Join(m.podDir(pod.UID), "volume-subpaths/data/c/2"), dirMode)
		},
		"half of a removed pod": func(m *Manager, pod *v1.Pod) error {
			err := m.SetUp(t.Context(), Request{Pod: pod, Objects: known{"cm": "x", "s": "y"}})
			return errors.Join(err, os.RemoveAll(filepath.Join(m.podDir(pod.UID), "volumes/kubernetes.io~configmap")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, goesOn := range []bool{true, false} {
				m := realManager(t)
				pod := podWith("u1", emptyDirVolume("data", v1.EmptyDirVolumeSource{}), secretVolume("s"), configMapVolume("cm"))
				c := &pod.Spec.Containers[0]
				c.VolumeMounts = append(c.VolumeMounts[1:], v1.VolumeMount{Name: "data", MountPath: "/data", SubPath: "sub"})
				if err := crash(m, pod); err != nil {
					t.Fatal(err)
				}
				if goesOn {
					setUpWith(t, m, pod, known{"cm": "x", "s": "y"})
					holds(t, filepath.Join(dirOf(t, m, pod, "cm"), "k"), "x")
					holds(t, filepath.Join(dirOf(t, m, pod, "s"), "k"), "y")
					mounts, err := m.Mounts(t.Context(), pod, c, nil)
					if err != nil {
						t.Fatal(err)
					}
					write(t, filepath.Join(mounts[2].HostPath, "f"), "z")
					holds(t, filepath.Join(dirOf(t, m, pod, "data"), "sub/f"), "z")
				}
				if err := m.TearDown(t.Context(), "u1"); err != nil {
					t.Fatal(err)
				}
				gone(t, m.podDir("u1"))
			}
		})
	}
}
