package podctl

import (
	"bytes"
	"testing"
)

// podctl's endpoints: flags take precedence over the endpoints' variables, and these over the directory's.
func TestEnvironment(t *testing.T) {
	for _, tc := range []struct {
		name            string
		variables       map[string]string
		podconfig, exec string
	}{
		{"nothing", nil, "unix:///run/podstream/podconfigd.sock", "unix:///run/podstream/podexecd.sock"},
		{"the directory", map[string]string{envRunDir: "/x"}, "unix:///x/podconfigd.sock", "unix:///x/podexecd.sock"},
		{"a relative directory", map[string]string{envRunDir: ".run"}, "unix:.run/podconfigd.sock", "unix:.run/podexecd.sock"},
		{"one endpoint", map[string]string{envRunDir: "/x", envPodexecEndpoint: "tcp://h:1"}, "unix:///x/podconfigd.sock", "tcp://h:1"},
		{"a bare path", map[string]string{envPodconfigEndpoint: "/y.sock"}, "unix:///y.sock", "unix:///run/podstream/podexecd.sock"},
	} {
		tool := newTool(Config{Getenv: func(name string) string { return tc.variables[name] }})
		if err := tool.readEnvironment(); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if got := tool.podconfigd.endpoint.String(); got != tc.podconfig {
			t.Errorf("%s: podconfigd at %s; want %s", tc.name, got, tc.podconfig)
		}
		if got := tool.podexecd.endpoint.String(); got != tc.exec {
			t.Errorf("%s: podexecd at %s; want %s", tc.name, got, tc.exec)
		}
	}
	var stderr bytes.Buffer
	code := Run(t.Context(), Config{Args: []string{"pods"}, Stderr: &stderr, Getenv: func(name string) string {
		return map[string]string{envPodexecEndpoint: "localhost:1"}[name]
	}})
	want := "podctl: PODSTREAM_PODEXEC_ENDPOINT=localhost:1: want a socket's path, unix:///PATH or tcp://HOST:PORT\n"
	if code != exitUsage || stderr.String() != want {
		t.Errorf("exit code %d, stderr %q; want %q", code, stderr.String(), want)
	}
}
