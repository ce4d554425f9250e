package podbench

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// diskSize is the size of a node's disk, whose file is sparse.
const diskSize = 8 << 30

// newDisk returns the directory of a node, on an ext4 of its own with a journal, as nodes have it. On ext4 without one,
// as in some virtual machines, each new file costs more the more files were deleted in the last minute: the kernel looks
// for an inode that is none of theirs. So a side would pay for what others, and earlier rounds, removed.
func newDisk(b *testing.B) string {
	b.Helper()
	image, dir := filepath.Join(b.TempDir(), "disk"), b.TempDir()
	err := os.WriteFile(image, nil, 0o600)
	if err == nil {
		err = os.Truncate(image, diskSize)
	}
	if err != nil {
		b.Fatal(err)
	}
	call(b, "mke2fs", "-q", "-t", "ext4", "-O", "has_journal", image)
	call(b, "mount", "-o", "loop", image, dir)
	b.Cleanup(func() { call(b, "umount", dir) })
	return filepath.Join(dir, "node") // beside lost+found
}

func call(b *testing.B, name string, args ...string) {
	b.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		b.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
}
