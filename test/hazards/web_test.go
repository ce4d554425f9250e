package hazards

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// web is the HTTP server of a scenario. It is safe for concurrent use.
type web struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]answer
	// asked is the last request for each path, as requests shows it.
	asked map[string]string
}

// answer is the response for a path. A request with the current ETag receives a 304.
type answer struct {
	status           int
	etag, kind, body string
}

func newWeb(t testing.TB) *web {
	w := &web{answers: map[string]answer{}, asked: map[string]string{}}
	w.Server = httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(w.Close)
	return w
}

func (w *web) serve(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	a, ok := w.answers[r.URL.Path]
	condition := r.Header.Get("If-None-Match")
	w.asked[r.URL.Path] = strings.TrimSpace(r.Method + " " + r.URL.Path + " " + condition)
	w.mu.Unlock()
	switch {
	case !ok:
		http.NotFound(out, r)
		return
	case a.etag != "" && condition == a.etag && a.status == http.StatusOK:
		out.Header().Set("ETag", a.etag)
		out.WriteHeader(http.StatusNotModified)
		return
	}
	if a.etag != "" {
		out.Header().Set("ETag", a.etag)
	}
	out.Header().Set("Content-Type", a.kind)
	out.WriteHeader(a.status)
	_, _ = out.Write([]byte(a.body))
}

func serve(s *scenario, d *datadriven.TestData) string {
	a := answer{status: http.StatusOK, kind: "application/yaml", body: content(d)}
	d.MaybeScanArgs(s.t, "status", &a.status)
	d.MaybeScanArgs(s.t, "type", &a.kind)
	if d.MaybeScanArgs(s.t, "etag", &a.etag) {
		a.etag = fmt.Sprintf("%q", a.etag)
	}
	s.web.mu.Lock()
	defer s.web.mu.Unlock()
	s.web.answers[s.arg(d, 0)] = a
	return ""
}

func requests(s *scenario, d *datadriven.TestData) string {
	path := s.arg(d, 0)
	return s.until(d, func() (string, error) {
		s.web.mu.Lock()
		defer s.web.mu.Unlock()
		return s.web.asked[path] + "\n", nil
	})
}
