package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/openfile"
)

// maxNames is how many names a directory of manifests may have, hidden ones included.
const maxNames = 100_000

var (
	// errUnmounted: the directory seems to be the mount point of a file system that was unmounted.
	errUnmounted = errors.New("the directory has no manifests and is on another mount than before: was it unmounted? its pods stay; " +
		"mount it again, or if the change is meant, create the file " + confirmFile + " in the directory")
	// errReplaced: the path was a directory and is a file now. errFile is the reverse.
	errReplaced = errors.New("it was a directory with manifests and is a file now; its pods stay; put it back, or if the change is meant, " +
		"put an empty directory in its place until its pods are gone")
	errFile = errors.New("it was a file with manifests and is a directory now; its pods stay; put it back, or if the change is meant, " +
		"create the file " + confirmFile + " in the directory")
)

// root is what a source's path is.
type root struct {
	// dir is the directory to watch: the path, or its parent if single.
	dir    string
	single bool
	// stamp is the stamp of dir.
	stamp stamp
	// mount is the mount of dir, by its number in /proc/self/mountinfo.
	mount string
}

// locate examines the path. An error means that the path can't be read as a whole.
func locate(path string) (root, error) {
	info, err := os.Stat(path)
	if err != nil {
		return root{}, err
	}
	single := !info.IsDir()
	name := path
	if single {
		if err := readable(path); err != nil {
			return root{}, err
		}
		name = filepath.Dir(path)
	}
	dir, err := os.OpenFile(name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return root{}, err
	}
	defer dir.Close()
	r, err := rootAt(dir)
	r.single = single
	return r, err
}

// rootAt returns the root of an open directory.
func rootAt(dir *os.File) (root, error) {
	info, err := dir.Stat()
	if err != nil {
		return root{}, err
	}
	mount, err := openfile.Mount(int(dir.Fd()))
	return root{dir: dir.Name(), stamp: stampOf(info), mount: mount}, err
}

// same reports whether both are the same directory on the same mount.
func (r root) same(o root) bool { return r.stamp.sameFile(o.stamp) && r.mount == o.mount }

// readable returns why a single file can't be read at all. A lease on it isn't a reason, as it ends.
func readable(path string) error {
	f, err := openfile.Open(path)
	if errors.Is(err, openfile.ErrLeased) {
		return nil
	}
	if err == nil {
		f.Close()
	}
	return err
}

// list returns the names of the root's files, sorted: all that are neither hidden nor directories.
func (r root) list(ctx context.Context, path string) ([]string, error) {
	if r.single {
		return []string{path}, nil
	}
	// The path may have changed since; O_DIRECTORY keeps a named pipe from being opened.
	dir, err := os.OpenFile(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if now, err := rootAt(dir); err != nil {
		return nil, err
	} else if !now.same(r) {
		return nil, fmt.Errorf("%s was replaced while it was read", path)
	}
	return names(ctx, dir)
}

// names returns the paths of the directory's files.
func names(ctx context.Context, dir *os.File) ([]string, error) {
	var files []string
	for seen := 0; ; {
		entries, err := dir.ReadDir(1024)
		for _, d := range entries {
			if !d.IsDir() && !hidden(d.Name()) {
				files = append(files, filepath.Join(dir.Name(), d.Name()))
			}
		}
		seen += len(entries)
		switch {
		case errors.Is(err, io.EOF):
			slices.Sort(files)
			return files, nil
		case err != nil:
			return nil, err
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case seen > maxNames:
			return nil, fmt.Errorf("%s has more than %d names; the source's pods stay", dir.Name(), maxNames)
		}
	}
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// isManifest reports whether the file's name is one of a manifest.
func (r root) isManifest(path string) bool {
	if r.single {
		return true
	}
	switch filepath.Ext(path) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// had reports whether the source has manifests from the path as a directory, or as a file: since this Run's last
// listing, or before the first one from an earlier Run.
func (l *loop) had() (directory, single bool) {
	if !l.listed {
		return l.before.directory, l.before.single
	}
	read := len(l.entries) > l.ignored
	return read && !l.root.single, read && l.root.single
}

// replaced refuses a path that had manifests as a directory and is a file now, or the other way round: a file doesn't
// mean that the directory has no manifests.
func (l *loop) replaced(r root) error {
	directory, single := l.had()
	switch {
	case r.single && directory:
		return &fs.PathError{Op: "read", Path: l.Path, Err: errReplaced}
	case !r.single && single && !l.confirmed():
		return &fs.PathError{Op: "read", Path: l.Path, Err: errFile}
	}
	return nil
}

// unmounted refuses a directory without manifests on another mount, if it had manifests before. A directory with
// manifests is accepted there, and an empty one is accepted on the same mount.
func (l *loop) unmounted(ctx context.Context, r root) error {
	if directory, _ := l.had(); r.single || !directory {
		return nil
	}
	same, err := l.sameMount(r)
	if err != nil || same {
		return err
	}
	files, err := r.list(ctx, l.Path)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(files, r.isManifest) || l.confirmed() {
		return nil
	}
	return errUnmounted
}

// sameMount reports whether the directory is on the same mount as before. Before the first listing it compares the
// stored record, if there is one.
func (l *loop) sameMount(r root) (bool, error) {
	if l.listed {
		return r.stamp.dev == l.root.stamp.dev && r.mount == l.root.mount, nil
	}
	if l.before.unknown || l.before.record.MountPoint == "" {
		return !l.before.unknown, nil
	}
	now, err := placeOf(r.mount)
	return l.before.record.is(now), err
}
