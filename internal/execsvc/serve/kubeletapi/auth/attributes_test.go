package auth

import (
	"net/http"
	"strings"
	"testing"
)

func TestAttributes(t *testing.T) {
	verbOf := map[string]string{
		http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
		http.MethodHead: "", http.MethodOptions: "", http.MethodConnect: "", http.MethodTrace: "", "get": "", "EXEC": "",
	}
	for path, want := range map[string]string{
		"/": "proxy", "/unknown": "proxy", "/pods": "pods proxy", "/pods/": "pods proxy", "/podsx": "proxy",
		"/runningpods": "pods proxy", "/runningpods/": "pods proxy", "/runningpodsx": "proxy",
		"/healthz": "healthz proxy", "/healthz/": "healthz proxy", "/healthz/ping": "healthz proxy", "/healthzx": "proxy",
		"/configz": "configz proxy", "/configz/x": "configz proxy",
		"/stats": "stats", "/stats/": "stats", "/stats/summary": "stats", "/statsx": "proxy",
		"/metrics": "metrics", "/metrics/": "metrics", "/metrics/cadvisor": "metrics", "/metrics/resource": "metrics",
		"/metrics/probes": "metrics", "/metrics/slis": "metrics", "/metricsx": "proxy",
		"/logs": "log", "/logs/": "log", "/logs/pods/x": "log", "/logsx": "proxy",
		"/checkpoint": "checkpoint", "/checkpoint/ns/pod/main": "checkpoint", "/statusz": "statusz", "/flagz": "configz",
		"/spec": "proxy", "/spec/": "proxy", "/debug/pprof/": "proxy", "/debug/pprof/profile": "proxy", "/debug/flags/v": "proxy",
		"/containerLogs/ns/pod/main": "proxy", "/cri/exec/token": "proxy",
		"/exec/ns/pod/main": "!proxy", "/exec/ns/pod/uid/main": "!proxy", "/attach/ns/pod/main": "!proxy", "/portForward/ns/pod": "!proxy",
		"/run/ns/pod/main": "!proxy", "/exec": "!proxy", "/exec/": "!proxy",
		// Paths are case-sensitive, as they are served.
		"/EXEC/ns/pod/main": "proxy", "/Metrics": "proxy",
		// A path that is below another path isn't that path.
		"/logs/exec/ns": "log", "/exec/metrics/stats": "!proxy", "/x/metrics": "proxy",
	} {
		for method, wantVerb := range verbOf {
			want, command := strings.CutPrefix(want, "!")
			if command && method == http.MethodGet {
				wantVerb = "create"
			}
			if wantVerb == "" {
				want = ""
			}
			verb, anyOf := Attributes(method, path)
			if got := strings.Join(anyOf, " "); verb != wantVerb || got != want {
				t.Errorf("%s %s: %q of %q; want %q of %q", method, path, verb, got, wantVerb, want)
			}
		}
	}
}
