package volume

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestHostPathTypes(t *testing.T) {
	dir := t.TempDir()
	file, socket, link := filepath.Join(dir, "file"), filepath.Join(dir, "socket"), filepath.Join(dir, "link")
	write(t, file, "x")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	missing, char := filepath.Join(dir, "missing"), "/dev/null"
	for kind, paths := range map[v1.HostPathType]struct{ good, bad []string }{
		v1.HostPathUnset:             {good: []string{dir, file, missing, char}},
		v1.HostPathDirectory:         {good: []string{dir, link}, bad: []string{file, socket, missing, char}},
		v1.HostPathDirectoryOrCreate: {good: []string{dir, link}, bad: []string{file, socket, char}},
		v1.HostPathFile:              {good: []string{file}, bad: []string{dir, socket, missing, char}},
		v1.HostPathFileOrCreate:      {good: []string{file}, bad: []string{dir, socket, char, filepath.Join(missing, "file")}},
		v1.HostPathSocket:            {good: []string{socket}, bad: []string{dir, file, missing, char}},
		v1.HostPathCharDev:           {good: []string{char}, bad: []string{dir, file, socket, missing}},
		v1.HostPathBlockDev:          {bad: []string{dir, file, socket, missing, char}},
	} {
		for _, path := range paths.good {
			if err := setUpHostPath(&v1.HostPathVolumeSource{Path: path, Type: &kind}); err != nil {
				t.Errorf("%s as %q: %v", path, kind, err)
			}
		}
		for _, path := range paths.bad {
			if err := setUpHostPath(&v1.HostPathVolumeSource{Path: path, Type: &kind}); err == nil || !strings.Contains(err.Error(), "hostPath") {
				t.Errorf("%s as %q: error %v, want one about the hostPath", path, kind, err)
			}
		}
	}
	if _, err := os.Lstat(missing); err == nil {
		t.Errorf("a type that doesn't create created %s", missing)
	}
	if err := setUpHostPath(&v1.HostPathVolumeSource{Path: missing}); err != nil {
		t.Errorf("without a type: %v", err)
	}
}

// The messages say what the path is instead, in the kubelet's words.
func TestHostPathMessages(t *testing.T) {
	dir := t.TempDir()
	file, missing, kind := filepath.Join(dir, "file"), filepath.Join(dir, "missing"), v1.HostPathDirectory
	write(t, file, "x")
	for path, want := range map[string]string{
		file:    "hostPath type check failed: " + file + " is not a directory, it's a File",
		missing: "hostPath type check failed, " + missing + " is not a directory, unable to determine its type: path \"" + missing + "\" does not exist",
	} {
		if err := setUpHostPath(&v1.HostPathVolumeSource{Path: path, Type: &kind}); err == nil || err.Error() != want {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

func TestHostPathCreates(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		path string
		kind v1.HostPathType
		mode uint32
	}{
		{filepath.Join(dir, "a/b/c"), v1.HostPathDirectoryOrCreate, 0o755},
		{filepath.Join(dir, "a/slashed/"), v1.HostPathDirectoryOrCreate, 0o755},
		{filepath.Join(dir, "f"), v1.HostPathFileOrCreate, 0o644},
	} {
		for range 2 {
			if err := setUpHostPath(&v1.HostPathVolumeSource{Path: c.path, Type: &c.kind}); err != nil {
				t.Fatalf("%s: %v", c.path, err)
			}
		}
		if got := permissions(t, c.path); got != c.mode {
			t.Errorf("%s has mode %o, want %o", c.path, got, c.mode)
		}
	}
}

// TestHostPathVanishes: when a daemon removes its socket, a running pod with that hostPath continues, but
// starts no container with it. A pod that has not started waits.
func TestHostPathVanishes(t *testing.T) {
	m, file := newManager(t), filepath.Join(t.TempDir(), "file")
	write(t, file, "x")
	pod := podWith("u1", hostPathVolume("v", file, v1.HostPathFile))
	var outdated []error
	setUpAgain := func(pod *v1.Pod) error {
		return m.SetUp(t.Context(), Request{Pod: pod, Outdated: func(err error) { outdated = append(outdated, err) }})
	}
	if err := errors.Join(setUpAgain(pod), os.Remove(file), setUpAgain(pod)); err != nil {
		t.Fatal(err)
	}
	if len(outdated) != 1 || !strings.Contains(outdated[0].Error(), `volume "v" : hostPath type check failed`) {
		t.Errorf("outdated: %v", outdated)
	}
	if _, err := m.Mounts(t.Context(), pod, &pod.Spec.Containers[0], nil); err == nil || !strings.Contains(err.Error(), "type check failed") {
		t.Errorf("a container that starts: error %v", err)
	}
	if err := setUpAgain(podWith("u2", pod.Spec.Volumes...)); err == nil {
		t.Error("another pod starts without it")
	}
	if err := setUpAgain(podWith("u1", hostPathVolume("v", file, v1.HostPathSocket))); err == nil {
		t.Error("the changed volume passes without a check")
	}
	if err := m.TearDown(t.Context(), "u1"); err != nil {
		t.Fatal(err)
	}
	if err := setUpAgain(pod); err == nil {
		t.Error("a pod starts again without it")
	}
}
