package podconfigd

import (
	"slices"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/mergesvc/merge"
)

func TestParseRefuses(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, args := range [][]string{
		{"extra"}, {"--no-such-flag"}, {"--file-check-frequency=0s"}, {"--pod-manifest-path="},
		{"--no-such=1", "--check-config"}, {"--config=/does/not/exist"}, {"--config-dir=/does/not/exist"},
		{"--log-format=x"}, {"--listen=foo"}, {"--tracing-sampling-rate-per-million=-1"}, {"--in-cluster"}, {"--access-file=/does/not/exist"},
	} {
		if _, err := parse(args, t.Output(), nil); err == nil {
			t.Errorf("podconfigd takes %v", args)
		}
	}
	// A source that lacks a file is another matter.
	if opts, err := parse([]string{"--kubeconfig=/does/not/exist"}, t.Output(), nil); err != nil || opts.plan.Sources[0].Problem == nil {
		t.Errorf("--kubeconfig of a missing file gives %+v, %v; want options with a problem", opts, err)
	}
	// An empty override is none.
	if opts, err := parse([]string{"--hostname-override="}, t.Output(), nil); err != nil || opts.node == "" {
		t.Errorf("--hostname-override= gives the options %+v, %v; want the host's name", opts, err)
	}
}

// TestParseDefault: without a flag, manifests are read from the default path.
func TestParseDefault(t *testing.T) {
	opts, err := parse(nil, t.Output(), nil)
	want := []merge.Source{{Name: "file", Location: "/etc/podstream/manifests"}}
	if err != nil || !slices.Equal(opts.mergeSources(opts.plan), want) {
		t.Errorf("options %+v, %v; want the sources %v", opts, err, want)
	}
}

// TestParseExtras: an extra's sources stand behind podconfigd's own, and its names must be new.
func TestParseExtras(t *testing.T) {
	a, b := newExtra("api"), newExtra("http")
	opts, err := parse([]string{"--api=1", "--http=2", "--pod-manifest-path=/m"}, t.Output(), []Extra{a, b})
	want := []merge.Source{{Name: "file", Location: "/m"}, {Name: "api", Location: "1"}, {Name: "http", Location: "2"}}
	if err != nil || !slices.Equal(opts.mergeSources(opts.plan), want) {
		t.Fatalf("options %+v, %v; want the sources %v", opts, err, want)
	}
	opts, err = parse([]string{"--api=1", "--pod-manifest-path="}, t.Output(), []Extra{newExtra("api")})
	if err != nil || !slices.Equal(opts.mergeSources(opts.plan), want[1:2]) {
		t.Errorf("with an empty manifest path: options %+v, %v; want the sources %v", opts, err, want[1:2])
	}
	if _, err := parse([]string{"--file=1"}, t.Output(), []Extra{newExtra("file")}); err == nil || !strings.Contains(err.Error(), "file") {
		t.Errorf("a second source file gives %v; want an error that names it", err)
	}
	if _, err := parse(nil, t.Output(), []Extra{newExtra("api")}); err == nil || !strings.Contains(err.Error(), "--api") {
		t.Errorf("an extra without its flag gives %v; want its own error", err)
	}
}
