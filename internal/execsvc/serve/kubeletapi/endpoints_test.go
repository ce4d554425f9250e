package kubeletapi

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// everything sets all handlers of a Config.
func everything(t *testing.T, c *Config) {
	c.Debug = Debug{
		Handlers: true, SystemLogs: true, SystemLogQuery: true, LogDir: t.TempDir(), Profiling: true, SetVerbosity: func(string) error { return nil },
	}
	c.Pods, c.Runtime = podview.New(), &fakeRuntime{}
	c.Configuration = func() any { return map[string]int{"maxPods": 110} }
	var handlers seen
	c.Streams = handlers.handler("streams")
	c.Handlers = map[string]http.Handler{}
	for _, path := range []string{"/stats/summary", "/metrics", "/metrics/resource", "/metrics/cadvisor", "/metrics/probes"} {
		c.Handlers[path] = handlers.handler(path)
	}
}

// The paths of each listener: the port with TLS with and without debugging handlers, the read-only port, and
// the health port.
func TestRoutes(t *testing.T) {
	var readOnly, health net.Listener
	full := start(t, func(c *Config) {
		everything(t, c)
		readOnly, health = listen(t), listen(t)
		c.ReadOnly, c.Health = []net.Listener{readOnly}, []net.Listener{health}
	})
	var bareReadOnly net.Listener
	bare := start(t, func(c *Config) {
		everything(t, c)
		c.Debug.Handlers = false
		bareReadOnly = listen(t)
		c.ReadOnly = []net.Listener{bareReadOnly}
	})
	partly := start(t, func(c *Config) { c.Debug = Debug{Handlers: true} })
	plainHTTP := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	admin, bareAdmin, partlyAdmin := full.admin(), bare.admin(), partly.admin()
	const off = http.StatusMethodNotAllowed
	for _, tc := range []struct {
		method, path                         string
		full, bare, partly, readOnly, health int
	}{
		{"GET", "/healthz", 200, 200, 200, 200, 200},
		{"HEAD", "/healthz", 403, 403, 403, 200, 200},
		{"POST", "/healthz", off, off, off, off, off},
		{"GET", "/healthz/ping", 200, 200, 200, 200, 200},
		{"GET", "/healthz/other", 404, 404, 404, 404, 404},
		{"GET", "/pods", 200, 200, 200, 200, 404},
		{"GET", "/pods/", 200, 200, 200, 200, 404},
		{"GET", "/pods/x", 404, 404, 404, 404, 404},
		{"GET", "/stats/summary", 200, 200, 404, 200, 404},
		{"GET", "/stats", 404, 404, 404, 404, 404},
		{"GET", "/metrics", 200, 200, 404, 200, 404},
		{"GET", "/metrics/resource", 200, 200, 404, 200, 404},
		{"GET", "/metrics/cadvisor", 200, 200, 404, 200, 404},
		{"GET", "/metrics/probes", 200, 200, 404, 200, 404},
		{"GET", "/metrics/slis", 200, 200, 200, 200, 404},
		{"POST", "/metrics", off, off, 404, off, 404},
		{"GET", "/configz", 200, 404, 404, 404, 404},
		{"GET", "/runningpods/", 200, off, 200, 404, 404},
		{"GET", "/logs/", 200, off, off, 404, 404},
		{"GET", "/debug/pprof/cmdline", 200, off, off, 404, 404},
		{"PUT", "/debug/flags/v", 200, 404, off, 404, 404},
		{"GET", "/exec/ns/pod/main", 200, off, 404, 404, 404},
		{"POST", "/exec/ns/pod/main", 200, off, 404, 404, 404},
		{"GET", "/attach/ns/pod/main", 200, off, 404, 404, 404},
		{"GET", "/portForward/ns/pod", 200, off, 404, 404, 404},
		{"GET", "/containerLogs/ns/pod/main", 200, off, 404, 404, 404},
		{"POST", "/run/ns/pod/main", 200, off, 404, 404, 404},
		{"POST", "/checkpoint/ns/pod/main", 200, 404, 404, 404, 404},
		{"GET", "/spec", 404, 404, 404, 404, 404},
		{"GET", "/", 404, 404, 404, 404, 404},
	} {
		for _, at := range []struct {
			where, url string
			client     *http.Client
			want       int
		}{
			{"full", "https://" + full.address, admin, tc.full}, {"bare", "https://" + bare.address, bareAdmin, tc.bare},
			{"partly", "https://" + partly.address, partlyAdmin, tc.partly},
			{"read-only", "http://" + readOnly.Addr().String(), plainHTTP, tc.readOnly},
			{"read-only of bare", "http://" + bareReadOnly.Addr().String(), plainHTTP, tc.readOnly},
			{"health", "http://" + health.Addr().String(), plainHTTP, tc.health},
		} {
			if got, text := fetch(t, at.client, tc.method, at.url+tc.path, "", strings.NewReader("")); got != at.want {
				t.Errorf("%s: %s %s: %d %q; want %d", at.where, tc.method, tc.path, got, text, at.want)
			}
		}
	}
	for path, want := range map[string]string{
		"/exec/ns/pod/main": "Debug endpoints are disabled.\n", "/runningpods/": "Debug endpoints are disabled.\n",
	} {
		if _, got := bare.get(path); got != want {
			t.Errorf("%s without debugging handlers: %q; want %q", path, got, want)
		}
	}
	for path, want := range map[string]string{
		"/logs/": "logs endpoint is disabled.\n", "/debug/pprof/heap": "profiling endpoint is disabled.\n",
		"/debug/flags/v": "flags endpoint is disabled.\n",
	} {
		if _, got := partly.get(path); got != want {
			t.Errorf("%s disabled: %q; want %q", path, got, want)
		}
	}
	if _, got := full.get("/configz"); got != `{"kubeletconfig":{"maxPods":110}}` {
		t.Errorf("/configz: %s", got)
	}
}

func TestHealthz(t *testing.T) {
	failing := errors.New("the loop stands still")
	n := start(t, func(c *Config) {
		c.Checks = map[string]func() error{"syncloop": func() error { return failing }, "other": func() error { return nil }}
	})
	for path, want := range map[string]string{
		"/healthz":                          "500 [+]ping ok\n[+]log ok\n[+]other ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n",
		"/healthz?exclude=syncloop":         "200 ok",
		"/healthz?exclude=syncloop&verbose": "200 [+]ping ok\n[+]log ok\n[+]other ok\n[+]syncloop excluded: ok\nhealthz check passed\n",
		"/healthz?exclude=syncloop&exclude=x&verbose": "200 [+]ping ok\n[+]log ok\n[+]other ok\n[+]syncloop excluded: ok\n" +
			"warn: some health checks cannot be excluded: no matches for [\"x\"]\nhealthz check passed\n",
		"/healthz/syncloop": "500 internal server error: the loop stands still\n",
		"/healthz/other":    "200 ok",
		"/healthz/log":      "200 ok",
	} {
		status, text := n.get(path)
		if got := fmt.Sprint(status, " ", text); got != want {
			t.Errorf("%s: %q; want %q", path, got, want)
		}
	}
	for range 3 { // A request that excludes the failing check doesn't log its end.
		n.get("/healthz?exclude=syncloop")
		n.get("/healthz")
	}
	failing = nil
	if status, text := n.get("/healthz"); status != 200 || text != "ok" {
		t.Errorf("without a failure: %d %q", status, text)
	}
	if log := n.log.String(); strings.Count(log, "reports failed checks") != 1 || strings.Count(log, "no failed checks any more") != 1 {
		t.Errorf("the log doesn't have its start once and its end once:\n%s", log)
	}
}

// A log whose writes block fails the check.
func TestHealthzLog(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = read.Close(), write.Close() }()
	n := start(t, func(c *Config) { c.LogOutput = write })
	if status, _ := n.get("/healthz/log"); status != http.StatusOK {
		t.Errorf("with an empty pipe: %d; want 200", status)
	}
	fill(t, write)
	if status, text := n.get("/healthz/log"); status != http.StatusInternalServerError || !strings.Contains(text, "logging blocked") {
		t.Errorf("with a full pipe: %d %q; want 500", status, text)
	}
}

func TestVerbosity(t *testing.T) {
	var level string
	n := start(t, func(c *Config) {
		c.Debug.SetVerbosity = func(l string) error {
			if l == "x" {
				return errors.New("not a number")
			}
			level = l
			return nil
		}
	})
	for _, tc := range []struct {
		method, body string
		want         int
	}{{"PUT", "6", 200}, {"PUT", "x", 400}, {"GET", "", 406}, {"PUT", strings.Repeat("9", 2<<20), 400}} {
		if status, text := n.do(n.admin(), tc.method, "/debug/flags/v", "", strings.NewReader(tc.body)); status != tc.want {
			t.Errorf("%s %.10q: %d %.100q; want %d", tc.method, tc.body, status, text, tc.want)
		}
	}
	if level != "6" {
		t.Errorf("the level is %.10q; want 6", level)
	}
}

func TestConfig(t *testing.T) {
	l := listen(t)
	defer func() { _ = l.Close() }()
	for name, cfg := range map[string]Config{
		"no TLS":                    {Listeners: []net.Listener{l}},
		"an unauthenticated secret": {Handlers: map[string]http.Handler{"/exec": http.NotFoundHandler()}},
		"metrics twice":             {Metrics: registered(t)},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func registered(t *testing.T) prometheus.Registerer {
	r := prometheus.NewRegistry()
	if _, err := New(Config{Metrics: r}); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMetrics(t *testing.T) {
	n := start(t, func(c *Config) { everything(t, c) })
	client := n.admin()
	for _, path := range []string{"/pods", "/metrics/resource", "/metrics/made-up", "/exec/ns/pod/main", "/portForward/ns/pod", "/made/up", "/debug/pprof/cmdline"} {
		n.do(client, http.MethodGet, path, "", nil)
	}
	n.do(n.client(nil, true), http.MethodGet, "/pods", "", nil)
	n.end()
	want := `kubelet_http_requests_total{long_running="false",method="GET",path="metrics/resource",server_type="readwrite"} 1
kubelet_http_requests_total{long_running="false",method="GET",path="other",server_type="readwrite"} 2
kubelet_http_requests_total{long_running="false",method="GET",path="pods",server_type="readwrite"} 2
kubelet_http_requests_total{long_running="true",method="GET",path="debug",server_type="readwrite"} 1
kubelet_http_requests_total{long_running="true",method="GET",path="exec",server_type="readwrite"} 1
kubelet_http_requests_total{long_running="true",method="GET",path="portForward",server_type="readwrite"} 1
`
	if diff := cmp.Diff(want, n.page("kubelet_http_requests_total")); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if got := n.page("kubelet_http_requests_duration_seconds_count"); strings.Count(got, "\n") != 6 {
		t.Errorf("durations:\n%s", got)
	}
	for line := range strings.Lines(n.page("kubelet_http_inflight_requests")) {
		if !strings.HasSuffix(line, " 0\n") {
			t.Errorf("in flight after the end: %s", line)
		}
	}
	if got := n.refusedFor("unauthorized"); got != 1 {
		t.Errorf("%d refusals of unauthorized; want 1", got)
	}
}
