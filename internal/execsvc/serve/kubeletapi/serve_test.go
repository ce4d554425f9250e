package kubeletapi

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/execsvc/serve/kubeletapi/auth"
)

// seen are the requests that reached handlers.
type seen struct {
	mu    sync.Mutex
	paths []string
}

func (s *seen) handler(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.paths = append(s.paths, name+" "+r.Method+" "+r.URL.Path+" "+r.URL.EscapedPath())
		s.mu.Unlock()
		_, _ = fmt.Fprint(w, name)
	})
}

func (s *seen) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	paths := s.paths
	s.paths = nil
	return paths
}

// recorder records the access decisions.
type recorder struct {
	Auth
	mu    sync.Mutex
	paths []string
}

func (r *recorder) Check(req *http.Request) (*auth.User, *auth.Refusal) {
	r.mu.Lock()
	r.paths = append(r.paths, req.URL.Path)
	r.mu.Unlock()
	return r.Auth.Check(req)
}

// For every spelling of a path, the handler receives the path that was authorized, and it is the handler of
// that path.
func TestPathTricks(t *testing.T) {
	var handlers seen
	var decided *recorder
	n := start(t, func(c *Config) {
		c.Streams = handlers.handler("streams")
		c.Handlers = map[string]http.Handler{"/metrics": handlers.handler("metrics"), "/stats/summary": handlers.handler("stats")}
		decided = &recorder{Auth: c.Auth}
		c.Auth = decided
	})
	admin := certificate(n.ca, "admin")
	for target, want := range map[string]string{
		"/metrics":                            "200 metrics",
		"/metrics/":                           "200 metrics",
		"/stats/summary":                      "200 stats",
		"/exec/ns/pod/main":                   "200 streams",
		"/containerLogs/ns/pod/main?follow=1": "200 streams",
		"/containerLogs/ns/pod%20x/main":      "200 streams",
		// An unnecessary escape is decoded.
		"/m%65trics":  "200 metrics",
		"/%65xec/a/b": "200 streams",
		// The result of decoding isn't decoded again.
		"/metrics%252f..%252fexec":          "404",
		"/metrics/%252e%252e/exec":          "404",
		"//metrics":                         "400",
		"/metrics//":                        "400",
		"/./metrics":                        "400",
		"/metrics/../exec/ns/p/c":           "400",
		"/metrics/%2e%2e/exec/ns/p":         "400",
		"/stats/..;/exec/ns/p":              "404",
		"/metrics%2f..%2fexec":              "400",
		"/exec%2fns/pod/main":               "400",
		"/exec%2Fns/pod/main":               "400",
		"/exec/ns%00/pod/main":              "400",
		"/metrics%00":                       "400",
		"/metrics%0d%0aX:%20y":              "400",
		"/metrics\\..\\exec":                "400",
		"/metrics%5c..%5cexec":              "400",
		"/logs/%2e%2e/%2e%2e/etc":           "400",
		"/exec.":                            "404",
		"/exec./ns/pod/main":                "404",
		"/EXEC/ns/pod/main":                 "404",
		"/metrics.":                         "404",
		"/metrics/.":                        "400",
		"/metrics/..":                       "400",
		"/metrics;/exec":                    "404",
		"/metrics#/exec":                    "404",
		"/metrics/unknown":                  "404",
		"/":                                 "404",
		"*":                                 "400",
		"metrics":                           "400",
		"":                                  "400",
		"/%zz":                              "400",
		"/" + strings.Repeat("a/", maxPath): "400",
		"http://other/metrics":              "200 metrics",
		"https://x@other/exec/ns/pod/main":  "200 streams",
		"/metrics?path=/exec&x=%2e%2e%2f":   "200 metrics",
		"/\xff\xfe":                         "404",
		"/metrics\t":                        "400",
		"/exec/ns/pod/main?command=%00&command=%2f/": "200 streams",
	} {
		decided.paths = nil
		line := n.raw(admin, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: node-1\r\nConnection: close\r\n\r\n", target))
		got := "none"
		if f := strings.Fields(line); len(f) > 1 {
			got = f[1]
		}
		reached := handlers.take()
		if len(reached) > 0 {
			name := strings.Fields(reached[0])[0]
			got += " " + name
			path := strings.TrimPrefix(reached[0], name+" GET ")
			if len(decided.paths) != 1 || !strings.HasPrefix(path, decided.paths[0]+" ") {
				t.Errorf("%q: decided on %q, but the handler got %q", target, decided.paths, path)
			}
			if path != decided.paths[0]+" "+(&url.URL{Path: decided.paths[0]}).EscapedPath() {
				t.Errorf("%q: the handler can read another path: %q", target, path)
			}
			if first := strings.Split(path, "/")[1]; (name == "streams") != (first == "exec" || first == "containerLogs") {
				t.Errorf("%q: %s got %q", target, name, path)
			}
		}
		if got != want {
			t.Errorf("%q: %q; want %q", target, got, want)
		}
	}
	for method, want := range map[string]string{
		"CONNECT": "400", "OPTIONS": "403", "HEAD": "403", "TRACE": "403", "get": "403", "PROPFIND": "403",
		"DELETE": "405", "POST": "405", "PATCH": "405",
	} {
		target := "/metrics"
		if method == http.MethodConnect {
			target = "node-1:443"
		}
		line := n.raw(admin, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", method, target))
		if f := strings.Fields(line); len(f) < 2 || f[1] != want {
			t.Errorf("%s: %q; want %s", method, line, want)
		}
	}
	if reached := handlers.take(); len(reached) > 0 {
		t.Errorf("other methods reached %q", reached)
	}
}

// A rejected request reaches no handler, and is logged.
func TestWhoMayWhat(t *testing.T) {
	var handlers seen
	n := start(t, func(c *Config) {
		c.Streams = handlers.handler("streams")
		c.Handlers = map[string]http.Handler{"/metrics/resource": handlers.handler("resource")}
	})
	stranger := certtest.NewCA(t, "ca")
	for _, tc := range []struct {
		who          string
		client       *http.Client
		token        string
		method, path string
		want         int
		text         string
		reached      bool
	}{
		{"no credentials", n.client(nil, true), "", "GET", "/pods", 401, "Unauthorized", false},
		{"no credentials", n.client(nil, false), "", "POST", "/exec/ns/pod/main", 401, "Unauthorized", false},
		{"no credentials", n.client(nil, false), "", "GET", "/healthz", 401, "Unauthorized", false},
		{"no credentials", n.client(nil, false), "", "GET", "/nothing", 401, "Unauthorized", false},
		{"another CA's", n.client(certificate(stranger, "admin"), true), "", "GET", "/pods", 401, "Unauthorized", false},
		{"an unknown token", n.client(nil, true), "guess", "GET", "/pods", 401, "Unauthorized", false},
		{"without rights", n.client(nil, true), "nobody", "GET", "/pods", 403,
			"Forbidden (user=nobody, verb=get, resource=nodes, subresource(s)=[pods proxy])", false}, // prose:ok
		{"without rights", n.client(nil, false), "nobody", "POST", "/exec/kube-system/etcd/etcd?command=sh", 403,
			"Forbidden (user=nobody, verb=create, resource=nodes, subresource(s)=[proxy])", false}, // prose:ok
		{"a reader", n.client(nil, true), "reader", "GET", "/metrics/resource", 200, "resource", true},
		{"a reader", n.client(nil, true), "reader", "GET", "/exec/ns/pod/main?command=id", 403, "", false},
		{"a reader", n.client(nil, true), "reader", "GET", "/logs/", 403, "", false},
		{"a reader", n.client(nil, true), "reader", "GET", "/debug/pprof/heap", 403, "", false},
		{"a reader", n.client(nil, true), "reader", "POST", "/metrics/resource", 403, "", false},
		{"all rights", n.admin(), "", "POST", "/exec/other/pod/main", 200, "streams", true},
		{"all rights", n.admin(), "", "GET", "/nothing", 404, "404 page not found", false},
	} {
		status, text := n.do(tc.client, tc.method, tc.path, tc.token, nil)
		reached := len(handlers.take()) > 0
		if status != tc.want || reached != tc.reached || !strings.HasPrefix(text, tc.text) {
			t.Errorf("%s: %s %s: %d %q, handler reached: %v; want %d %q, %v", tc.who,
				tc.method, tc.path, status, text, reached, tc.want, tc.text, tc.reached)
		}
	}
	log := n.log.String()
	for _, want := range []string{"reason=unauthorized", "reason=forbidden", "user=nobody", "verb=create", "path=/exec/kube-system/etcd/etcd"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log doesn't have %s:\n%s", want, log)
		}
	}
	if strings.Contains(log, "guess") {
		t.Errorf("the log has a token:\n%s", log)
	}
}

// A handler's panic is an error of its request, and a log line.
func TestPanic(t *testing.T) {
	n := start(t, func(c *Config) {
		c.Streams = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("at the disco") })
	})
	client := n.admin()
	if status, _ := n.do(client, http.MethodGet, "/exec/ns/pod/main", "", nil); status != http.StatusInternalServerError {
		t.Errorf("%d; want 500", status)
	}
	if log := n.log.String(); !strings.Contains(log, "at the disco") || !strings.Contains(log, "serve_test.go") {
		t.Errorf("the log has neither panic nor stack:\n%s", log)
	}
	if status, _ := n.do(client, http.MethodGet, "/healthz", "", nil); status != http.StatusOK {
		t.Errorf("afterwards %d; want 200", status)
	}
}
