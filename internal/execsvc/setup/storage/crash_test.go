//go:build failpoints

package storage

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/execsvc/setup/volume"
	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/internal/roottest"
)

// crashDir is the environment variable with the directory of the process that dies.
const crashDir = "STORAGE_CRASH_DIR"

func crashNode(t *testing.T, base string) *node {
	n := start(t, base, newTruth(), func(c *Config) { c.Backends = map[string]Backend{"b": binds{base}} })
	n.manager = volume.New(volume.Config{PodDirs: kubeletdir.Pods{Current: filepath.Join(base, "pods")}, Plugins: []volume.Plugin{n.Storage}})
	return n
}

// rest returns when no volume is left.
func (n *node) rest() {
	for len(n.entriesLeft()) > 0 {
		n.awaitChange()
	}
}

// TestCrash: podexecd is killed at each point of each operation, with real mounts. The next start finds what is mounted,
// gives it to the pod or undoes it, and leaves nothing. The data is intact.
func TestCrash(t *testing.T) {
	roottest.Need(t, "mounting")
	if base := os.Getenv(crashDir); base != "" {
		n := crashNode(t, base)
		n.mustSetUp(pod("u1", "h"))
		n.mustTearDown("u1")
		n.rest()
		t.Log("it didn't die")
		return
	}
	for _, point := range failpoint.StoragePoints() {
		other := func(kind string) bool { return strings.HasPrefix(string(point), "storage/"+kind+"/") }
		if slices.ContainsFunc([]string{"republish", "expand", "save"}, other) {
			continue // This history has no repeated call, no expansion and no full disk.
		}
		for _, again := range []bool{true, false} {
			name := strings.ReplaceAll(string(point), "/", "-")
			if again {
				name += "-and-set-up-again"
			}
			t.Run(name, func(t *testing.T) { crash(t, point, again) })
		}
	}
}

func crash(t *testing.T, point failpoint.Point, again bool) {
	base := t.TempDir()
	t.Cleanup(func() {
		table, err := mount.New("").List()
		for i := len(table) - 1; i >= 0 && err == nil; i-- {
			if strings.HasPrefix(table[i].Path, base+"/") {
				_ = unix.Unmount(table[i].Path, unix.MNT_DETACH)
			}
		}
	})
	canary := filepath.Join(base, "h", MountDir, "canary")
	if err := errors.Join(os.MkdirAll(filepath.Dir(canary), 0o755), os.WriteFile(canary, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrash$", "-test.v")
	cmd.Env = append(os.Environ(), crashDir+"="+base, failpoint.DieAt+"="+string(point))
	out, err := cmd.CombinedOutput()
	var died *exec.ExitError
	if !errors.As(err, &died) || died.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the process didn't die at %s: %v\n%s", point, err, out)
	}

	n := crashNode(t, base)
	p := pod("u1", "h")
	if again {
		n.mustSetUp(p)
		mounts, err := n.manager.Mounts(t.Context(), p, &p.Spec.Containers[0], nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(mounts[0].HostPath, MountDir, "canary")); err != nil {
			t.Errorf("the pod doesn't have its volume: %v", err)
		}
	}
	// Housekeeping finds the pod if anything of it is left.
	uids, err := n.manager.PodsOnDisk()
	if err != nil {
		t.Fatal(err)
	}
	for _, uid := range uids {
		n.mustTearDown(uid)
	}
	n.rest()
	if table, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Contains(string(table), base+"/") {
		t.Errorf("something is still mounted (%v)", err)
	}
	for _, dir := range []string{"staging", "pods", "volumes"} {
		if entries, err := os.ReadDir(filepath.Join(base, dir)); len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s has %v (%v)", dir, entries, err)
		}
	}
	if _, err := os.Stat(canary); err != nil {
		t.Errorf("the volume's data: %v", err)
	}
}
