package tree

import (
	"fmt"
	"os"
	"strings"

	"github.com/podstream/podstream/internal/mounttable"
)

// checkMounts returns ErrMounted if something is mounted below an open directory. It reads the kernel's table and not the
// directory: whatever a pod has made in it, such as very many files, can't keep a volume from being removed.
func checkMounts(dir *os.File) error {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir.Fd())) // Without links, as the table has it.
	if err != nil {
		return fmt.Errorf("get the path of %s, in which something may be mounted: %w", dir.Name(), err)
	}
	found := false // One is enough.
	mounts, err := mounttable.Select(func(m *mounttable.Mount) bool {
		is := !found && strings.HasPrefix(m.Point, path+"/")
		found = found || is
		return is
	})
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return fmt.Errorf("%s: %w", mounts[0].Point, ErrMounted)
	}
	return nil
}
