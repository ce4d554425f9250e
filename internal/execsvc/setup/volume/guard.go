package volume

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/mounttable"
	"github.com/podstream/podstream/internal/openfile"
)

// guard makes the ReadOnlyDirs to which a hostPath volume leads read-only for the container: the mount itself if it
// is one of them or lies in one, and by additional mounts each of them that lies in it. A container that could write
// there as podconfigd's user, or as root, could replace podconfigd's socket or store and so run any pod. A privileged
// container is root on the node in any case. A directory that only root can write to is left as it is.
//
// If the file system of the hostPath does not answer, the container waits, as the check is impossible.
func (m *Manager) guard(ctx context.Context, pod *v1.Pod, c *v1.Container, mounted criconfig.Mount) ([]criconfig.Mount, error) {
	if c.SecurityContext != nil && ptr.Deref(c.SecurityContext.Privileged, false) || len(m.readOnlyDirs) == 0 {
		return []criconfig.Mount{mounted}, nil
	}
	return lookAt(ctx, m.nodePaths, pod, mounted.HostPath, func() ([]criconfig.Mount, error) { return m.guarded(mounted) })
}

func (m *Manager) guarded(mounted criconfig.Mount) ([]criconfig.Mount, error) {
	mounts := []criconfig.Mount{mounted}
	for _, dir := range m.readOnlyDirs {
		in, below, err := relation(mounted.HostPath, dir)
		switch {
		case err != nil:
			return nil, fmt.Errorf("compare %s with %s, which is read-only for pods: %w", mounted.HostPath, dir, err)
		case in:
			mounts[0].ReadOnly = true
		case below != "" && !mounted.RecursiveReadOnly:
			mounts = append(mounts, criconfig.Mount{HostPath: dir, ContainerPath: path.Join(mounted.ContainerPath, below), ReadOnly: true})
		}
	}
	return mounts, nil
}

// relation reports whether the file name is dir or lies in it, and otherwise the path of dir below name; empty: dir
// isn't there. It compares files by device and inode, so neither links nor bind mounts, such as those of subPaths,
// hide a directory.
func relation(name, dir string) (in bool, below string, err error) {
	guarded, err := os.Stat(dir)
	if os.IsNotExist(err) {
		return false, "", nil
	}
	if err != nil {
		return false, "", err
	}
	if !isOwned(guarded) {
		return false, "", nil
	}
	mounted, err := os.Stat(name)
	for os.IsNotExist(err) && name != "/" {
		// The runtime will create it.
		name = filepath.Dir(name)
		if _, err = os.Stat(name); err == nil {
			in, err = inside(name, dir, guarded)
			return in, "", err
		}
	}
	if err != nil {
		return false, "", err
	}
	if in, err := inside(name, dir, guarded); in || err != nil {
		return in, "", err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return false, "", err
	}
	for at := dir; at != "/"; {
		at = filepath.Dir(at)
		above, err := os.Stat(at)
		if err != nil {
			return false, "", err
		}
		if os.SameFile(above, mounted) {
			below, err = filepath.Rel(at, dir)
			return false, below, err
		}
	}
	return false, "", nil
}

// isOwned reports whether a user or group other than root's owns the directory. Only root can replace files in root's
// directories, and a directory that all users may write to, such as /tmp, belongs to more than podconfigd.
func isOwned(dir fs.FileInfo) bool {
	st, ok := dir.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	const group, others = 0o020, 0o002
	return dir.Mode()&others == 0 && (st.Uid != 0 || st.Gid != 0 && dir.Mode()&group != 0)
}

// inside reports whether the resolved path is the guarded directory or lies in it.
func inside(name, dir string, guarded fs.FileInfo) (bool, error) {
	resolved, err := filepath.EvalSymlinks(name)
	if err != nil {
		return false, err
	}
	for at := resolved; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		switch {
		case err != nil:
			return false, err
		case os.SameFile(info, guarded):
			return true, nil
		case at == "/":
			return boundFrom(resolved, dir)
		}
	}
}

// boundFrom reports whether the file name lies in dir within its file system. A bind mount, such as that of a
// subPath, shows it elsewhere.
func boundFrom(name, dir string) (bool, error) {
	file, err := originOf(name)
	if err != nil {
		return false, err
	}
	within, err := originOf(dir)
	if err != nil || file.major != within.major || file.minor != within.minor {
		return false, err
	}
	if within.cut {
		return false, fmt.Errorf("the path of %s in its file system is too long to be compared", dir)
	}
	// If the file's path is cut, it is longer than the directory's.
	rel, err := filepath.Rel(within.path, file.path)
	return err == nil && filepath.IsLocal(rel), err
}

// origin is a file's place in its file system.
type origin struct {
	major, minor int
	path         string
	// cut is set if the path is only the beginning of that of the mount.
	cut bool
}

func originOf(name string) (origin, error) {
	file, err := os.OpenFile(name, unix.O_PATH, 0)
	if err != nil {
		return origin{}, err
	}
	defer func() { _ = file.Close() }()
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	if err != nil {
		return origin{}, err
	}
	number, err := openfile.Mount(int(file.Fd()))
	if err != nil {
		return origin{}, err
	}
	mounts, err := mounttable.Select(func(m *mounttable.Mount) bool { return strconv.Itoa(m.ID) == number })
	if err != nil {
		return origin{}, err
	}
	if len(mounts) == 0 {
		return origin{}, fmt.Errorf("the mount of %s isn't in the list of mounts", path)
	}
	on := &mounts[0]
	rel, err := filepath.Rel(on.Point, path)
	return origin{on.Major, on.Minor, filepath.Join(on.Root, rel), on.CutRoot}, err
}
