package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// errUnmounted is the error of a directory that seems to be what was below a mount that is gone.
var errUnmounted = errors.New("the directory has no manifests and is on another file system than before: " +
	"was it unmounted? its pods stay")

// root is what a source's path turned out to be.
type root struct {
	// dir is the directory to watch: the path, or the one that holds it if single.
	dir    string
	single bool
	// stamp is that of dir.
	stamp stamp
}

// locate looks at the path. Its errors mean that the path can't be read as a whole.
func locate(path string) (root, error) {
	info, err := os.Stat(path)
	if err != nil {
		return root{}, err
	}
	if info.IsDir() {
		return root{dir: path, stamp: stampOf(info)}, nil
	}
	r := root{dir: filepath.Dir(path), single: true}
	if info.Mode().IsRegular() {
		// Of a single file, not being allowed to read it is no different from its not being there.
		f, err := os.Open(path)
		if err != nil {
			return root{}, err
		}
		_ = f.Close()
	}
	if info, err = os.Stat(r.dir); err != nil {
		return root{}, err
	}
	r.stamp = stampOf(info)
	return r, nil
}

// list names the files of the root, sorted: all that are neither hidden nor directories.
func (r root) list(path string) ([]string, error) {
	if r.single {
		return []string{path}, nil
	}
	dir, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	files := make([]string, 0, len(dir))
	for _, d := range dir {
		if !d.IsDir() && !hidden(d.Name()) {
			files = append(files, filepath.Join(path, d.Name()))
		}
	}
	return files, nil
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// isManifest tells by the file's name.
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

// relist compares all that is there with what was read of it, after making sure of the path and of its watch.
func (l *loop) relist(now time.Time) {
	l.relistAt = now.Add(l.CheckFrequency)
	root, err := locate(l.Path)
	if err == nil {
		err = l.unmounted(root)
	}
	if err != nil {
		l.fail(err, now)
		return
	}
	if l.err != nil && !l.returning {
		// A directory that has just come back is probably being filled.
		l.returning = true
		l.relistAt = now.Add(l.QuietPeriod)
		return
	}
	why := relisting
	if !l.listed || l.err != nil {
		why = firstListing
	}
	if l.listed && root.single != l.root.single {
		why = firstListing
		l.entries, l.ignored = nil, 0
		clear(l.waits)
	}
	// The watch comes first: what changes after the listing is an event then.
	l.follow(root, now)
	files, err := root.list(l.Path)
	if err != nil {
		l.fail(err, now)
		return
	}
	if l.err != nil {
		l.Logger.Info("Manifests can be read again")
	}
	l.root, l.listed, l.err, l.returning = root, true, nil, false
	l.compare(files, why, now)
}

// unmounted refuses a directory that lost all its manifests by having become one on another file system. Whoever meant it
// puts one there; an empty directory on the same file system is taken at its word.
func (l *loop) unmounted(r root) error {
	if r.single || l.root.single || r.stamp.dev == l.root.stamp.dev || len(l.entries) == l.ignored {
		return nil
	}
	files, err := r.list(l.Path)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(files, r.isManifest) {
		return nil
	}
	return errUnmounted
}

// fail notes that the path can't be read. What was read before is kept, though no Set shows it: it may come back the same.
func (l *loop) fail(err error, now time.Time) {
	err = fmt.Errorf("read manifests: %w", err)
	if l.err == nil || l.err.Error() != err.Error() {
		l.Logger.Warn("Manifests can't be read; their pods stay", "err", err)
	}
	l.err, l.returning = err, false
	clear(l.waits)
	l.relistAt = now.Add(recheckInterval)
	l.followParent()
}

// compare reads what differs between the files that are there and the entries. Both are sorted.
func (l *loop) compare(files []string, why occasion, now time.Time) {
	var differ []string
	missing := false
	known := l.entries
	for len(files) > 0 || len(known) > 0 {
		switch {
		case len(known) == 0 || len(files) > 0 && files[0] < known[0].path:
			differ = append(differ, files[0])
			files = files[1:]
		case len(files) == 0 || known[0].path < files[0]:
			missing = true
			differ = append(differ, known[0].path)
			known = known[1:]
		default:
			if known[0].suspect() {
				differ = append(differ, files[0])
			}
			files, known = files[1:], known[1:]
		}
	}
	for _, path := range differ {
		switch {
		case l.waits[path] != nil:
			// It will be looked at anyway.
		case missing:
			// One of the new files may be a missing one under a new name: both belong in one Set.
			l.await(path, now)
		default:
			if l.look(path, &sighting{occasion: why}, now) != taken {
				l.await(path, now)
			}
		}
	}
}

// suspect reports whether the file may differ from what was read of it.
func (e *entry) suspect() bool {
	if e.ignored {
		return false
	}
	info, err := os.Stat(e.path)
	return err != nil || !e.current(stampOf(info))
}
