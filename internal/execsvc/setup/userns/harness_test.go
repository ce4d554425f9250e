package userns

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// newManager returns a Manager of a directory with pods' directories.
func newManager(t *testing.T, cfg Config) *Manager {
	t.Helper()
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// podsDir returns a directory with directories of these pods.
func podsDir(t *testing.T, uids ...types.UID) string {
	t.Helper()
	dir := t.TempDir()
	for _, uid := range uids {
		if err := os.Mkdir(filepath.Join(dir, string(uid)), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// has checks the pod's IDs.
func has(t *testing.T, m *Manager, uid types.UID, want Range) {
	t.Helper()
	got, err := m.Of(uid)
	if err != nil {
		t.Fatalf("pod %s: %v", uid, err)
	}
	if (Range{got.HostID, got.Length}) != want {
		t.Errorf("pod %s has %+v; want %+v", uid, *got, want)
	}
}

// remove does what a tear-down does.
func remove(t *testing.T, m *Manager, uid types.UID) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(m.cfg.PodDirs.Current, string(uid))); err != nil {
		t.Fatal(err)
	}
	m.Free(uid)
}
