package local

import (
	"os/exec"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// TestNodesFileSystem: a pod never gets a file system of the node by its fsType, for which the kernel ignores the device.
func TestNodesFileSystem(t *testing.T) {
	b := newBench(t)
	b.pv.Spec.Local.Path = loop(t)
	for _, content := range []string{"none", "ext4"} {
		if content == "ext4" {
			if out, err := exec.Command("mkfs.ext4", "-q", "-F", b.pv.Spec.Local.Path).CombinedOutput(); err != nil {
				t.Fatal(string(out))
			}
		}
		for _, fsType := range []string{"proc", "sysfs", "tmpfs", "devtmpfs", "fuse.x", "../x"} {
			b.pv.Spec.Local.FSType = ptr.To(fsType)
			s, _ := b.resolved("u1", nil, true)
			err := b.Stage(t.Context(), s)
			if storage.OutcomeOf(err) != storage.Final ||
				!strings.Contains(err.Error(), "isn't on a disk") && !strings.Contains(err.Error(), "can't be the type") {
				t.Errorf("%s, content %s: %v (outcome %d)", fsType, content, err, storage.OutcomeOf(err))
			}
		}
	}
	b.pv.Spec.Local.FSType = ptr.To("xfs")
	s, _ := b.resolved("u1", nil, false)
	if err := b.Stage(t.Context(), s); storage.OutcomeOf(err) != storage.Final || !strings.Contains(err.Error(), `the disk is "ext4"`) {
		t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
	// One driver mounts ext2 to ext4.
	if out, err := exec.Command("mkfs.ext2", "-q", "-F", b.pv.Spec.Local.Path).CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	b.pv.Spec.Local.FSType = nil
	s, p := b.resolved("u1", nil, false)
	must(t, b.Stage(t.Context(), s))
	must(t, b.Publish(t.Context(), p))
}
