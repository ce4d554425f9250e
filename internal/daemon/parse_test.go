package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/podstream/podstream/internal/daemon/process"
)

func parseAll(stdout io.Writer, args ...string) error {
	f := &Flags{}
	return f.Parse(f.NewFlagSet("podconfigd", "Podconfigd decides.", stdout), args)
}

// TestParseMistakes: an error that is visible in the flags alone names the flag.
func TestParseMistakes(t *testing.T) {
	for _, tc := range []struct{ arg, want string }{
		{"--listen=foo", "--listen foo: want unix:///path or tcp://host:port"},
		{"--listen=", "--listen : want unix:///path"},
		{"--listen=unix://relative", "want unix:///path"},
		{"--listen=tcp://nohost", "--listen tcp://nohost: want tcp://host:port"},
		{"--listen=tcp://:1", "TCP is served only with mutual TLS"},
		{"--listen=unix:///" + strings.Repeat("x", 107), "the path has 108 bytes; the kernel takes at most 107"},
		{"--metrics-address=9090", "--metrics-address: want host:port"},
		{"--log-format=x", `--log-format "x": want text or json`},
		{"--max-streams-per-connection=0", "--max-streams-per-connection 0: want a number"},
		{"extra", `unexpected argument "extra": podconfigd takes only flags`},
		{"--no-such-flag", "unknown flag"},
	} {
		if err := parseAll(t.Output(), tc.arg); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v; want an error with %q", tc.arg, err, tc.want)
		}
	}
	for _, args := range [][]string{
		nil, {"--listen=unix:///" + strings.Repeat("x", 106), "--metrics-address=:0", "--log-format=json"},
	} {
		if err := parseAll(t.Output(), args...); err != nil {
			t.Errorf("%q: %v; want them accepted", args, err)
		}
	}
}

func TestTracingCheck(t *testing.T) {
	for _, tc := range []struct {
		tracing Tracing
		want    string
	}{
		{Tracing{SamplingRatePerMillion: -1}, "--tracing-sampling-rate-per-million -1: want 0 to 1000000"},
		{Tracing{Endpoint: "c:1", SamplingRatePerMillion: PerMillion + 1}, "want 0 to 1000000"},
		{Tracing{Endpoint: "http://c:1"}, "--tracing-endpoint http://c:1: want host:port"},
		{Tracing{Endpoint: "collector"}, "--tracing-endpoint collector: want host:port"},
	} {
		if err := tc.tracing.Check(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v; want an error with %q", tc.tracing, err, tc.want)
		}
	}
	for _, good := range []Tracing{{}, {SamplingRatePerMillion: PerMillion}, {Endpoint: "collector:4317"}, {Endpoint: "[::1]:4317"}} {
		if err := good.Check(); err != nil {
			t.Errorf("%+v: %v; want it accepted", good, err)
		}
	}
}

// TestHelpAndVersion: both go to stdout, are no failure, and serve nothing.
func TestHelpAndVersion(t *testing.T) {
	program := Program[struct{}]{
		Name:  "podconfigd",
		Parse: func(args []string, stdout io.Writer) (struct{}, error) { return struct{}{}, parseAll(stdout, args...) },
		Serve: func(context.Context, struct{}, io.Writer) error { return errors.New("it was served") },
	}
	for arg, want := range map[string]string{
		"--help":    "Podconfigd decides.\n\nUsage:\n  podconfigd [flags]\n\nFlags:\n      --root-dir directory ",
		"-h":        "Podconfigd decides.\n",
		"--version": process.VersionText("podconfigd", process.Version()),
	} {
		var stdout, stderr bytes.Buffer
		code := program.Run(t.Context(), []string{arg}, &stdout, &stderr)
		if code != 0 || !strings.HasPrefix(stdout.String(), want) || stderr.Len() > 0 {
			t.Errorf("%s: exit code %d, stderr %q, stdout:\n%s\nwant it to begin with:\n%s", arg, code, &stderr, &stdout, want)
		}
	}
	var stderr bytes.Buffer
	code := program.Run(t.Context(), []string{"--log-format=x"}, t.Output(), &stderr)
	if code != 2 || !strings.Contains(stderr.String(), "--log-format") {
		t.Errorf("a mistake in the flags: exit code %d, stderr %q; want 2 and the flag", code, &stderr)
	}
}

// TestUsageNamesValues: help names the value of each flag in plain words, not by its Go type.
func TestUsageNamesValues(t *testing.T) {
	f, tracing := &Flags{}, &Tracing{}
	fs := f.NewFlagSet("podconfigd", "", t.Output())
	tracing.AddFlags(fs)
	fs.VisitAll(func(flag *pflag.Flag) {
		if name, _ := pflag.UnquoteUsage(flag); name == flag.Value.Type() || strings.HasSuffix(name, "Array") {
			t.Errorf("--%s %s: want a name for the value", flag.Name, name)
		}
	})
}
