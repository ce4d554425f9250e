package server

import (
	"cmp"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many symbolic links in a row lead to a log.
const maxLinks = 8

// logsRoute serves the files of the directory of logs, and queries of them and of the journal.
func (s *Server) logsRoute() *route {
	d := s.cfg.Debug
	if !d.SystemLogs {
		return disabled("logs endpoint is disabled.")
	}
	dir := logDir(path.Clean(cmp.Or(d.LogDir, "/var/log")))
	files := s.patiently(http.StripPrefix("/logs", http.FileServer(http.FS(dir))))
	query := newLogQueries(files, dir, d.Journalctl)
	return &route{methods: onlyGet, long: true, handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.SystemLogQuery && asksQuery(r.URL.Query()) {
			query.ServeHTTP(w, r)
			return
		}
		files.ServeHTTP(w, r)
	})}
}

// logDir is a directory as an fs.FS that nothing leads out of: no path, and no symbolic link that a container has laid there.
type logDir string

// Open opens a regular file or a directory. What else there may be, a pipe or a device, isn't a log.
func (d logDir) Open(name string) (fs.File, error) {
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	f, err := d.open(root, name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// open follows the links whose targets are written as absolute paths into the directory, as the kubelet's are in /var/log/containers:
// a Root takes those to lead out.
func (d logDir) open(root *os.Root, name string) (*os.File, error) {
	for range maxLinks {
		f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		target, linkErr := root.Readlink(name)
		if linkErr != nil {
			return nil, err
		}
		inside, ok := strings.CutPrefix(path.Clean(target), string(d)+"/")
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
		}
		name = inside
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: unix.ELOOP}
}
