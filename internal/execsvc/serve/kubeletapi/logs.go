package kubeletapi

import (
	"cmp"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/openfile"
)

// maxLinks is the limit of symbolic links in a row.
const maxLinks = 8

// logsRoute serves the files of the log directory, and queries of them and of the journal.
func (s *Server) logsRoute() *route {
	d := s.cfg.Debug
	if !d.SystemLogs {
		return disabled("logs endpoint is disabled.")
	}
	dir := logDir(path.Clean(cmp.Or(d.LogDir, "/var/log")))
	files := s.patiently(http.StripPrefix("/logs", &listing{dir: dir, files: http.FileServer(http.FS(dir))}))
	query := newLogQueries(files, dir, d.Journalctl)
	return &route{methods: onlyGet, long: true, handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.SystemLogQuery && asksQuery(r.URL.Query()) {
			query.ServeHTTP(w, r)
			return
		}
		files.ServeHTTP(w, r)
	})}
}

// logDir is a directory as an fs.FS that no path and no symbolic link leaves, not even one that a container has
// created.
type logDir string

// Open opens a regular file or a directory, whose entries can't be read.
func (d logDir) Open(name string) (fs.File, error) {
	f, err := d.openAny(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		return f, nil
	}
	return unlisted{f}, nil
}

// openAny opens a regular file or a directory. Pipes, devices and the like aren't logs and aren't opened.
func (d logDir) openAny(name string) (*os.File, error) {
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	for range maxLinks {
		f, target, err := d.open(root, name)
		if err != nil {
			return nil, err
		}
		if f != nil {
			return f, nil
		}
		if name, err = d.inside(name, target); err != nil {
			return nil, err
		}
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: unix.ELOOP}
}

// open opens the name, or returns the target if it is a link.
func (d logDir) open(root *os.Root, name string) (f *os.File, target string, err error) {
	// With O_PATH the call doesn't block and devices aren't opened; a link itself is opened.
	at, err := root.OpenFile(name, unix.O_PATH, 0)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = at.Close() }()
	info, err := at.Stat()
	if err != nil {
		return nil, "", err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err = root.Readlink(name)
		return nil, target, err
	case info.IsDir():
		f, err = root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
		return f, "", err
	case !info.Mode().IsRegular():
		return nil, "", &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	f, err = openfile.Reopen(int(at.Fd()), name, os.O_RDONLY)
	return f, "", err
}

// inside returns the path to which a link leads. Targets may be absolute paths into the directory, as the kubelet's
// in /var/log/containers.
func (d logDir) inside(name, target string) (string, error) {
	at := path.Join(path.Dir(name), target)
	if path.IsAbs(target) {
		var ok bool
		if at, ok = strings.CutPrefix(path.Clean(target), string(d)+"/"); !ok {
			at = ".."
		}
	}
	if !filepath.IsLocal(at) {
		return "", &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return at, nil
}
