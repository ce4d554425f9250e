package daemon

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
)

// /healthz answers for the daemon as a whole, /readyz for each of its parts.
func TestHealthPages(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	var parts map[string]bool
	page := Page{Registry: NewRegistry(), Health: func() map[string]bool { return parts }}
	go func() { ended <- ServeMetrics(ctx, l, page) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) (int, string) {
		t.Helper()
		resp, err := client.Get("http://" + l.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	for _, tc := range []struct {
		name                    string
		parts                   map[string]bool
		live, ready             int
		livenessText, readyText string
	}{
		{"all is well", map[string]bool{"": true, "podconfigd.store": true}, 200, 200, "ok", "ok"},
		{"a part isn't", map[string]bool{"": true, "b": false, "a": false, "c": true}, 200, 503, "ok", "not ready: a, b\n"},
		{"the daemon goes down", map[string]bool{"": false, "a": true}, 503, 503, "not ready: serving\n", "not ready: serving\n"},
	} {
		parts = tc.parts
		if code, text := get("/healthz"); code != tc.live || text != tc.livenessText {
			t.Errorf("%s: /healthz is %d %q; want %d %q", tc.name, code, text, tc.live, tc.livenessText)
		}
		if code, text := get("/readyz"); code != tc.ready || text != tc.readyText {
			t.Errorf("%s: /readyz is %d %q; want %d %q", tc.name, code, text, tc.ready, tc.readyText)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ServeMetrics returns %v; want nil", err)
	}
}
