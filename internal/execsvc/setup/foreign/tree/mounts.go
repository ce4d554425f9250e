package tree

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/mount-utils"
)

// mountTable are the mounts that this process sees.
const mountTable = "/proc/self/mountinfo"

// checkMounts returns ErrMounted if something is mounted below an open directory. It reads the kernel's table and not the
// directory: whatever a pod has made in it, such as very many files, can't keep a volume from being removed.
func checkMounts(dir *os.File) error {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir.Fd())) // Without links, as the table has it.
	if err != nil {
		return fmt.Errorf("get the path of %s, in which something may be mounted: %w", dir.Name(), err)
	}
	mounts, err := mount.ParseMountInfo(mountTable)
	if err != nil {
		return fmt.Errorf("read the mounts: %w", err)
	}
	for i := range mounts {
		if at := mounts[i].MountPoint; strings.HasPrefix(at, path+"/") {
			return fmt.Errorf("%s: %w", at, ErrMounted)
		}
	}
	return nil
}
