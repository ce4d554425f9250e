package assets_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/podctl/web/assets"
)

// TestFiles: the page and its files are served with their types, compressed only to clients that accept that, and nothing else is.
func TestFiles(t *testing.T) {
	files, err := assets.Load()
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, accept string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("Accept-Encoding", accept)
		w := httptest.NewRecorder()
		files.ServeHTTP(w, r)
		return w
	}
	page := ask(http.MethodGet, "/", "")
	if page.Code != 200 || page.Header().Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(page.Body.String(), "<html") {
		t.Errorf("the page is %d %v", page.Code, page.Header())
	}
	for _, hidden := range []string{"assets.go", "doc.go", "placeholder.html", "assets_test.go", "", "..", "app.js.gz"} {
		if files.Has(hidden) {
			t.Errorf("%q is served", hidden)
		}
	}
	if w := ask(http.MethodGet, "/assets.go", ""); w.Code != 404 {
		t.Errorf("assets.go is served: %d", w.Code)
	}
	if !files.Has("app.js") {
		t.Skip("the page isn't built")
	}
	plain, packed := ask(http.MethodGet, "/app.js", "br"), ask(http.MethodGet, "/app.js", "br, gzip;q=0.5")
	if plain.Header().Get("Content-Encoding") != "" || plain.Header().Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Errorf("the plain script is %v", plain.Header())
	}
	text := packed.Body.Bytes()
	if packed.Header().Get("Content-Encoding") == "gzip" {
		r, err := gzip.NewReader(bytes.NewReader(text))
		if err == nil {
			text, err = io.ReadAll(r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(text, plain.Body.Bytes()) || len(text) == 0 {
		t.Error("the compressed script is another one than the plain one")
	}
	if head := ask(http.MethodHead, "/app.js", ""); head.Body.Len() != 0 || head.Header().Get("Content-Length") != plain.Header().Get("Content-Length") {
		t.Errorf("HEAD has %d bytes, %v", head.Body.Len(), head.Header())
	}
}
