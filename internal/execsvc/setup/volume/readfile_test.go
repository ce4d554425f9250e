package volume

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

func TestReadFile(t *testing.T) {
	m := newManager(t)
	pod := podWith("u1", emptyDirVolume("data", v1.EmptyDirVolumeSource{}), configMapVolume("cm"))
	setUpWith(t, m, pod, known{"cm": "x"})
	data := dirOf(t, m, pod, "data")
	if err := errors.Join(
		os.Mkdir(filepath.Join(data, "dir"), 0o755),
		unix.Mkfifo(filepath.Join(data, "pipe"), 0o644),
		os.Symlink("/etc/hostname", filepath.Join(data, "out")),
		os.Symlink("..", filepath.Join(data, "dir/up")),
	); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(data, "dir/env"), "A=1")
	write(t, filepath.Join(data, "full"), strings.Repeat("x", maxFile))
	write(t, filepath.Join(data, "large"), strings.Repeat("x", maxFile+1))

	for path, want := range map[string]int{"dir/env": 3, "full": maxFile} {
		if got, err := m.ReadFile(pod, "data", path); err != nil || len(got) != want {
			t.Errorf("%s: %d bytes (%v), want %d", path, len(got), err, want)
		}
	}
	for _, c := range []struct{ volume, path string }{
		{"data", "large"}, {"data", "dir"}, {"data", "pipe"}, {"data", "out"}, {"data", "../data/full"}, {"data", "/etc/hostname"},
		{"data", ""}, {"data", "dir/up/../../x"}, {"cm", "k"}, {"other", "full"},
	} {
		if got, err := m.ReadFile(pod, c.volume, c.path); err == nil || !strings.Contains(err.Error(), c.volume) {
			t.Errorf("%s of %s: %d bytes, error %v; want one that names the volume", c.path, c.volume, len(got), err)
		}
	}
	if _, err := m.ReadFile(pod, "data", "missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: error %v, want fs.ErrNotExist", err)
	}
	if _, err := m.ReadFile(podWith("../u1"), "data", "full"); err == nil {
		t.Error("a UID that is a path is accepted")
	}
}
