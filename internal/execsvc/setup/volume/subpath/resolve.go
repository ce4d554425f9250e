package subpath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrOutside is returned when a link leads out of the volume.
var ErrOutside = errors.New("not within volume path")

const (
	// maxLinks is the maximum number of links in a path, as in the kernel.
	maxLinks = 40
	// attempts is how often a path is resolved when it changes meanwhile.
	attempts = 8
)

// root is a volume's directory.
type root struct {
	// given is the volume's configured path; links within the volume may use it.
	given string
	// real is the same path without links.
	real string
	// fd is an O_PATH descriptor.
	fd int
}

func openRoot(path string) (*root, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("volume path %q isn't absolute", path)
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("resolve the volume path: %w", err)
	}
	fd, err := unix.Open(resolved, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the volume path: %w", &os.PathError{Op: "open", Path: resolved, Err: err})
	}
	return &root{given: filepath.Clean(path), real: resolved, fd: fd}, nil
}

func (r *root) close() { _ = unix.Close(r.fd) }

// parse returns the names of a subPath, none for the volume itself. It rejects what the API server rejects.
func parse(path string) ([]string, error) {
	names := split(path)
	switch {
	case strings.ContainsRune(path, 0):
		return nil, fmt.Errorf("subpath %q must not contain NUL", path)
	case filepath.IsAbs(path):
		return nil, fmt.Errorf("subpath %q must not be an absolute path", path)
	case slices.Contains(names, ".."):
		return nil, fmt.Errorf("subpath %q must not contain \"..\"", path)
	case len(path) >= unix.PathMax:
		return nil, fmt.Errorf("subpath of %d bytes: %w", len(path), unix.ENAMETOOLONG)
	}
	return names, nil
}

// split returns the path's names, without empty ones and ".".
func split(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
}

// open returns a descriptor of the file at names, wherever within the volume that is. Later changes of the names
// don't affect it. With create, missing names are created as directories with the mode of the volume's root.
func (r *root) open(names []string, create bool) (fd int, err error) {
	var before place
	for range attempts {
		var at place
		if at, err = r.locate(names); err == nil {
			switch {
			case at.missing == 0:
				fd, err = openPlain(r.fd, at.path)
			case !create:
				err = unix.ENOENT
			case at != before:
				// A file may seem missing while its directory is replaced as a whole (a configMap's ..data). The
				// second attempt then finds the new one.
				before, err = at, unix.ENOENT
			default:
				fd, err = r.makeMissing(at.path, names[len(names)-at.missing:])
			}
		}
		if err == nil {
			return fd, nil
		}
		if !mayHaveChanged(err) {
			break
		}
	}
	if errors.Is(err, ErrOutside) {
		return -1, fmt.Errorf("subpath %q %w", strings.Join(names, "/"), err)
	}
	return -1, fmt.Errorf("open subpath %q: %w", strings.Join(names, "/"), err)
}

// mayHaveChanged reports whether a concurrent change can have caused the error, so that another attempt may succeed.
func mayHaveChanged(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EAGAIN)
}

// place is the result of resolving names.
type place struct {
	// path is relative to the volume's root, without links when it was resolved; "." for the root.
	path string
	// missing is the number of trailing names that don't exist.
	missing int
}

// locate resolves the names by reading links as text. The result may change at any time, so it is only a hint where
// to open. Names that lead outside are resolved as text only, in case they lead back.
func (r *root) locate(names []string) (place, error) {
	at, links := r.real, 0
	var linked []string // names in links still to be followed, before the rest of names
	for len(linked)+len(names) > 0 {
		from := &names
		if len(linked) > 0 {
			from = &linked
		}
		next := filepath.Join(at, (*from)[0])
		if !within(r.real, next) {
			at, *from = next, (*from)[1:]
			continue
		}
		text, err := os.Readlink(next)
		switch {
		case err == nil:
			if links++; links > maxLinks {
				return place{}, unix.ELOOP
			}
			if filepath.IsAbs(text) {
				at, text = "/", r.realName(text)
			}
			*from = (*from)[1:]
			linked = append(split(text), linked...)
		case errors.Is(err, unix.EINVAL): // no link
			at, *from = next, (*from)[1:]
		case errors.Is(err, unix.ENOENT) && from == &names && within(r.real, at):
			return place{path: r.below(at), missing: len(names)}, nil
		default:
			// A dangling link is an error, as for mkdir(2). The error omits the path, which may lie outside of the
			// pod.
			return place{}, errnoOf(err)
		}
	}
	if !within(r.real, at) {
		return place{}, ErrOutside
	}
	return place{path: r.below(at)}, nil
}

// realName replaces the volume's configured path by its real path.
func (r *root) realName(path string) string {
	path = filepath.Clean(path)
	if within(r.given, path) {
		return filepath.Join(r.real, strings.TrimPrefix(path, r.given))
	}
	return path
}

// below returns a path within the volume relative to its root.
func (r *root) below(path string) string {
	return filepath.Join(".", strings.TrimPrefix(path, r.real))
}

// within reports whether path is base or below it; both are clean.
func within(base, path string) bool {
	return path == base || strings.HasPrefix(path, strings.TrimSuffix(base, "/")+"/")
}

// errnoOf returns the bare error of a system call.
func errnoOf(err error) error {
	if errno := unix.Errno(0); errors.As(err, &errno) {
		return errno
	}
	return err
}
