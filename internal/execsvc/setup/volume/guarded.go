package volume

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/openfile"
)

// maxEntries bounds the directories that are read at once here. A directory with more isn't removed.
const maxEntries = 4096

// mountName is the directory in a Located plugin's volume where it is mounted.
const mountName = "mount"

// emptied removes the directories of persistent volumes of one pod, after their plugin has unmounted them. It removes
// only directories that are empty and on the same mount as the directory of pods: a volume that is still mounted, or
// that was mounted again meanwhile, is ErrMounted, and nothing in it is removed.
type emptied struct {
	// podsDir is the directory of pods, without links.
	podsDir string
	// open opens a directory below podsDir. Tests replace it to show that its checks are needed.
	open func(podsDir, name string) (*os.File, error)
}

// remove removes the plugin's directory of a pod; name is its path below podsDir. A missing one is no error.
func (r emptied) remove(name string) error {
	dir, err := r.open(r.podsDir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	entries, err := dir.Readdirnames(maxEntries)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("list %s: %w", dir.Name(), err)
	}
	var errs []error
	for _, volume := range entries {
		errs = append(errs, r.removeVolume(dir, filepath.Join(name, volume)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	parent, err := r.open(r.podsDir, filepath.Dir(name))
	if err != nil {
		return err
	}
	defer parent.Close()
	return removeEmpty(parent, filepath.Base(name))
}

// removeVolume removes a volume's directory in the open directory of its plugin.
func (r emptied) removeVolume(plugin *os.File, name string) error {
	dir, err := r.open(r.podsDir, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := removeEmpty(dir, mountName); err != nil {
		return err
	}
	return removeEmpty(plugin, filepath.Base(name))
}

// removeEmpty removes the empty directory called name in the open directory.
func removeEmpty(dir *os.File, name string) error {
	path := filepath.Join(dir.Name(), name)
	switch err := unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR); {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%s: %w", path, ErrMounted)
	default:
		return fmt.Errorf("remove the directory %s, which must be empty: %w", path, err)
	}
}

// openHere opens a directory below podsDir, with no link and no mount on the way: the kernel checks it, and the mount's
// number is compared for kernels that can't.
func openHere(podsDir, name string) (*os.File, error) {
	if failpoint.Active(failpoint.CrossMounts) {
		return os.Open(filepath.Join(podsDir, name))
	}
	dir, err := openfile.OpenDirBeneath(podsDir, name)
	if errors.Is(err, openfile.ErrOutside) {
		return nil, fmt.Errorf("%s: a mount or a link leads elsewhere: %w", filepath.Join(podsDir, name), ErrMounted)
	}
	if err != nil {
		return nil, err
	}
	base, err := os.Open(podsDir)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	defer base.Close()
	on, err := openfile.Mount(int(dir.Fd()))
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	at, err := openfile.Mount(int(base.Fd()))
	if err == nil && on != at {
		err = fmt.Errorf("%s: %w", filepath.Join(podsDir, name), ErrMounted)
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}
