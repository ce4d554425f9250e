package podmount

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/blockdevice"
	"github.com/podstream/podstream/internal/mounttable"
)

// IsMounted returns an error unless the block device with the number, "8:0", is mounted at a path of --kubelet-dir. A bind of the path would
// give the pod a directory of the node's own disk. name is the device's, for the error.
func IsMounted(path, name, number string) error {
	above, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	point := filepath.Join(above, filepath.Base(path))
	mounts, err := mounttable.Read()
	if err != nil {
		return err
	}
	for _, m := range slices.Backward(mounts) {
		if m.Point != point {
			continue
		}
		if blockdevice.IsOf(&m, number) {
			return nil
		}
		return fmt.Errorf("%s (%d:%d, %s) is mounted at %s, and not the disk %s (%s) of the volume",
			m.Source, m.Major, m.Minor, m.Type, path, name, number)
	}
	return fmt.Errorf("the disk %s isn't mounted at %s any more: delete the pods that use the volume, so that it is mounted again", name, path)
}
