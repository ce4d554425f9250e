package podctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// manifestServer serves a manifest at /web.yaml, and what a hostile server does elsewhere. to is the other server that it
// redirects to, and loops counts the requests of /loop.
func manifestServer(to *string, loops *atomic.Int32) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/web.yaml", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, manifestText("web", "v1")) })
	mux.Handle("/moved.yaml", http.RedirectHandler("/web.yaml", http.StatusFound))
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) {
		loops.Add(1)
		http.Redirect(w, r, "/loop", http.StatusFound)
	})
	mux.HandleFunc("/scheme", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, *to+"/web.yaml", http.StatusFound) })
	mux.Handle("/file", http.RedirectHandler("file:///etc/passwd", http.StatusFound))
	mux.HandleFunc("/denied", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, manifestText("web", "v1"), http.StatusForbidden)
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		line := strings.Repeat("#", 1<<10-1) + "\n"
		for range 4 << 10 {
			if _, err := io.WriteString(w, line); err != nil {
				return
			}
		}
	})
	return mux
}

// TestApplyURL: the manifests of a URL are applied and removed. The server's refusals, redirects to other schemes, endless
// redirects and large responses are errors, which have no credential of the URL.
func TestApplyURL(t *testing.T) {
	w, to, loops := newWriter(t), "https://127.0.0.1:1", atomic.Int32{}
	server := httptest.NewServer(manifestServer(&to, &loops))
	defer server.Close()
	w.want("pod/web created\n", "apply", "-f", server.URL+"/web.yaml?token=secret")
	w.want("pod/web unchanged\n", "apply", "-f", server.URL+"/moved.yaml")
	for path, want := range map[string]string{
		"/none.yaml": "the server answers 404 (Not Found)",
		"/denied":    "the server answers 403 (Forbidden)",
		"/large":     "are larger than 3 MiB",
		"/loop":      "redirects more than 5 times",
		"/scheme":    "redirects from http to https, which podctl doesn't follow",
		"/file":      "redirects from http to file, which podctl doesn't follow",
	} {
		address := strings.Replace(server.URL, "://", "://user:secret@", 1) + path + "?token=secret"
		got := w.podctl("apply", "-f", address)
		if !strings.Contains(got, want) || !strings.HasSuffix(got, "exit code 1\n") || strings.Contains(got, "secret") {
			t.Errorf("%s: podctl prints\n%s\nwant %q, and no credential", path, got, want)
		}
	}
	if got := loops.Load(); got != maxRedirects+1 {
		t.Errorf("a server that redirects in a loop got %d requests; want %d", got, maxRedirects+1)
	}
	if got := w.desired("web"); got != "v1" {
		t.Errorf("after refused URLs, the pod has the image %q; want v1", got)
	}
	w.want("pod \"web\" deleted from default namespace\n", "delete", "-f", server.URL+"/web.yaml")
}

// TestURLNotDowngraded: a redirect from https to http isn't followed. The same one to https is.
func TestURLNotDowngraded(t *testing.T) {
	to, loops := "", atomic.Int32{}
	plain := httptest.NewServer(manifestServer(&to, &loops))
	defer plain.Close()
	secure := httptest.NewTLSServer(manifestServer(&to, &loops))
	defer secure.Close()
	transport := secure.Client().Transport
	to = secure.URL
	if got, err := fetchManifest(t.Context(), transport, "podctl", secure.URL+"/scheme", maxManifests); err != nil || string(got) != manifestText("web", "v1") {
		t.Errorf("to https: %q, %v; want the manifest", got, err)
	}
	to = plain.URL
	if got, err := fetchManifest(t.Context(), transport, "podctl", secure.URL+"/scheme", maxManifests); err == nil ||
		!strings.Contains(err.Error(), "from https to http") {
		t.Errorf("to http: %q, %v; want an error", got, err)
	}
}

// TestURLCredentialStays: another server, to which the first one redirects, doesn't get the URL: it may have a token.
func TestURLCredentialStays(t *testing.T) {
	got := make(chan string, 1)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- fmt.Sprint(r.URL, r.Header)
		fmt.Fprint(w, manifestText("web", "v1"))
	}))
	defer other.Close()
	first := httptest.NewServer(http.RedirectHandler(other.URL+"/web.yaml", http.StatusFound))
	defer first.Close()
	address := strings.Replace(first.URL, "://", "://user:secret@", 1) + "/web.yaml?token=secret"
	if text, err := fetchManifest(t.Context(), &http.Transport{DisableKeepAlives: true}, "podctl", address, maxManifests); err != nil || string(text) != manifestText("web", "v1") {
		t.Fatalf("%q, %v; want the manifest", text, err)
	}
	if request := <-got; strings.Contains(request, "secret") || strings.Contains(request, "Authorization") {
		t.Errorf("the other server got %s; want no credential", request)
	}
}

// endlessBody is a response without an end. read counts its bytes.
type endlessBody struct{ read int }

func (b *endlessBody) Read(p []byte) (int, error) {
	if b.read > 2*maxManifests {
		return 0, errors.New("podctl reads on")
	}
	b.read += len(p)
	return len(p), nil
}

func (b *endlessBody) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Request: r, Body: io.NopCloser(b)}, nil
}

// TestURLBytes: of a response without an end, one byte more than the limit is read into memory.
func TestURLBytes(t *testing.T) {
	got, err := fetchManifest(t.Context(), &endlessBody{}, "podctl", "https://example.com/web.yaml", maxManifests)
	if err != nil || len(got) != maxManifests+1 {
		t.Errorf("%d bytes, %v; want %d", len(got), err, maxManifests+1)
	}
}

// silentServer is a transport whose server answers nothing, or sends no body.
type silentServer struct{ answers bool }

func (s silentServer) RoundTrip(r *http.Request) (*http.Response, error) {
	if !s.answers {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: http.StatusOK, Request: r, Body: io.NopCloser(silentBody{r.Context()})}, nil
}

type silentBody struct{ ctx context.Context }

func (b silentBody) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

// TestURLTime: a server that doesn't answer, or doesn't end its answer, is left after the time limit.
func TestURLTime(t *testing.T) {
	for _, server := range []silentServer{{answers: false}, {answers: true}} {
		synctest.Test(t, func(t *testing.T) {
			_, err := fetchManifest(t.Context(), server, "podctl", "https://example.com/web.yaml", maxManifests)
			if err == nil || err.Error() != "https://example.com/web.yaml: it takes longer than 30s" {
				t.Errorf("answers=%v: %v; want the time limit", server.answers, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := fetchManifest(ctx, server, "podctl", "https://example.com/web.yaml", maxManifests); !errors.Is(err, context.Canceled) {
				t.Errorf("answers=%v, interrupted: %v; want context.Canceled", server.answers, err)
			}
		})
	}
}
