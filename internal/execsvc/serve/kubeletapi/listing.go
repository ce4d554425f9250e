package kubeletapi

import (
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

const (
	// maxListed is the limit of listed entries of a directory.
	maxListed = 10_000
	// listedAtOnce is how many of them are in memory. They are sorted if there are no more.
	listedAtOnce = 512
)

// listing lists directories as http.FileServer does, but in bounded memory. The other requests go to files.
type listing struct {
	dir   logDir
	files http.Handler
}

func (l *listing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	dir := l.directory(r.URL.Path)
	if dir == nil {
		l.files.ServeHTTP(w, r)
		return
	}
	defer func() { _ = dir.Close() }()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if r.Method != http.MethodHead {
		// Writing fails only if the caller is gone.
		_ = listDirectory(w, dir)
	}
}

// directory returns the directory to list, or nil. One with an index page, or a path without a trailing slash, isn't
// listed.
func (l *listing) directory(at string) fs.ReadDirFile {
	name := strings.TrimPrefix(path.Clean("/"+at), "/")
	if name == "" {
		name = "."
	}
	if !strings.HasSuffix(at, "/") {
		return nil
	}
	if index, err := l.dir.Open(path.Join(name, "index.html")); err == nil {
		_ = index.Close()
		return nil
	}
	f, err := l.dir.openAny(name)
	if err != nil {
		return nil
	}
	if info, err := f.Stat(); err != nil || !info.IsDir() {
		_ = f.Close()
		return nil
	}
	return f
}

// listDirectory writes the entries of a directory as links.
func listDirectory(w io.Writer, dir fs.ReadDirFile) error {
	if _, err := io.WriteString(w, "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n"); err != nil {
		return err
	}
	for listed := 0; listed < maxListed; {
		entries, err := dir.ReadDir(min(listedAtOnce, maxListed-listed))
		slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
		for _, e := range entries {
			if err := listEntry(w, e); err != nil {
				return err
			}
		}
		listed += len(entries)
		if err != nil && !errors.Is(err, io.EOF) {
			_, err = io.WriteString(w, "The rest of the directory can't be read.\n")
			return err
		}
		if len(entries) == 0 {
			_, err := io.WriteString(w, "</pre>\n")
			return err
		}
	}
	end := "</pre>\n"
	if more, _ := dir.ReadDir(1); len(more) > 0 {
		end += fmt.Sprintf("<p>Only %d entries are listed.</p>\n", maxListed)
	}
	_, err := io.WriteString(w, end)
	return err
}

func listEntry(w io.Writer, e fs.DirEntry) error {
	name := e.Name()
	if e.IsDir() {
		name += "/"
	}
	// A name may contain a colon, or begin like a host.
	to := url.URL{Path: name}
	_, err := fmt.Fprintf(w, "<a href=\"%s\">%s</a>\n", to.String(), html.EscapeString(name))
	return err
}

// unlisted is a directory that can't be read: http.FileServer would hold all of it in memory.
type unlisted struct{ fs.File }

// ReadDir is part of fs.ReadDirFile.
func (unlisted) ReadDir(int) ([]fs.DirEntry, error) { return nil, fs.ErrPermission }
