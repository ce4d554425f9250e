package assets

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed *
var files embed.FS

const (
	index       = "index.html"
	placeholder = "placeholder.html"
	compressed  = ".gz"
)

// kinds are the types of the files, by their extensions.
var kinds = map[string]string{
	".html":  "text/html; charset=utf-8",
	".js":    "text/javascript; charset=utf-8",
	".css":   "text/css; charset=utf-8",
	".svg":   "image/svg+xml",
	".woff2": "font/woff2",
	".txt":   "text/plain; charset=utf-8",
}

// Files are the files of the page. It is safe for concurrent use.
type Files struct{ byName map[string]*file }

type file struct {
	kind          string
	content, gzip []byte
}

// Load returns the built files. Without a built page, index.html says so.
func Load() (*Files, error) {
	f := &Files{byName: map[string]*file{}}
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), compressed)
		kind, ok := kinds[path.Ext(name)]
		if e.IsDir() || !ok {
			continue
		}
		content, err := files.ReadFile(e.Name())
		if err != nil {
			return nil, err
		}
		one := f.byName[name]
		if one == nil {
			one = &file{kind: kind}
			f.byName[name] = one
		}
		if name == e.Name() {
			one.content = content
		} else {
			one.gzip = content
		}
	}
	for name, one := range f.byName {
		if one.content != nil {
			continue
		}
		// Only the compressed form is in the program, which is smaller by that.
		if one.content, err = decompress(one.gzip); err != nil {
			return nil, fmt.Errorf("the page's file %s: %w", name, err)
		}
	}
	if f.byName[index] == nil {
		f.byName[index] = f.byName[placeholder]
	}
	delete(f.byName, placeholder)
	return f, nil
}

func decompress(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// Has reports whether there is a file of the name.
func (f *Files) Has(name string) bool { return f.byName[name] != nil }

// ServeHTTP implements http.Handler. "/" is index.html.
func (f *Files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = index
	}
	one := f.byName[name]
	if one == nil {
		http.NotFound(w, r)
		return
	}
	content, header := one.content, w.Header()
	header.Set("Content-Type", one.kind)
	header.Set("Vary", "Accept-Encoding")
	if one.gzip != nil && acceptsGzip(r.Header.Get("Accept-Encoding")) {
		content = one.gzip
		header.Set("Content-Encoding", "gzip")
	}
	header.Set("Content-Length", strconv.Itoa(len(content)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(content) // The client has gone away.
	}
}

// acceptsGzip reports whether a header Accept-Encoding has gzip. A browser never refuses it by a weight of 0.
func acceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, _, _ := strings.Cut(part, ";")
		if strings.TrimSpace(name) == "gzip" {
			return true
		}
	}
	return false
}
