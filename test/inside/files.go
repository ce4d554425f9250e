package inside

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	mostContent = 64 << 10
	mostFiles   = 5000
)

// walk adds the file and all files below it. Links are reported, and not followed.
func (l *looker) walk(path string) {
	l.file(path)
	if l.Files[path].Kind != "dir" {
		return
	}
	entries, err := os.ReadDir(path)
	l.failed(err)
	for _, e := range entries {
		if len(l.Files) >= mostFiles {
			l.Errors = append(l.Errors, fmt.Sprintf("more than %d files", mostFiles))
			return
		}
		l.walk(filepath.Join(path, e.Name()))
	}
}

func (l *looker) file(path string) {
	info, err := os.Lstat(path)
	if err != nil {
		l.Files[path] = File{Kind: "missing"}
		if !os.IsNotExist(err) {
			l.failed(err)
		}
		return
	}
	st := info.Sys().(*syscall.Stat_t) //nolint:forcetypeassert // Linux returns this type.
	f := File{Kind: kindOf(info.Mode()), Mode: fmt.Sprintf("%04o", st.Mode&0o7777), UID: int(st.Uid), GID: int(st.Gid), Size: info.Size()}
	switch f.Kind {
	case "link":
		f.Link, err = os.Readlink(path)
		l.failed(err)
		if target, err := os.Stat(path); err == nil && target.Mode().IsRegular() {
			f.Content = l.content(path)
		}
	case "file":
		f.Content = l.content(path)
		f.Writable = unix.Access(path, unix.W_OK) == nil
	case "dir":
		f.Writable = unix.Access(path, unix.W_OK) == nil
	}
	l.Files[path] = f
}

func (l *looker) content(path string) string {
	file, err := os.Open(path)
	if err != nil {
		l.failed(err)
		return ""
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, mostContent))
	l.failed(err)
	return string(text)
}

func kindOf(mode fs.FileMode) string {
	switch mode.Type() {
	case 0:
		return "file"
	case fs.ModeDir:
		return "dir"
	case fs.ModeSymlink:
		return "link"
	case fs.ModeSocket:
		return "socket"
	case fs.ModeNamedPipe:
		return "pipe"
	default:
		return "device"
	}
}
