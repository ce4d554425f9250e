package podexecd

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/client/shard"
)

// TestEndpoints: podconfigd's addresses are a list, with commas or repeated, of one kind.
func TestEndpoints(t *testing.T) {
	parsed := func(args ...string) (*Options, error) {
		return parse(append(args, "--root-dir="+t.TempDir(), "--hostname-override=n1"), io.Discard)
	}
	for _, args := range [][]string{
		{"--podconfig-endpoint=tcp://a:1,tcp://b:1"}, {"--podconfig-endpoint=tcp://a:1", "--podconfig-endpoint=tcp://b:1"},
	} {
		opts, err := parsed(append(args, "--podconfig-endpoint-order=listed", "--podconfig-cert-file=c")...)
		if err != nil {
			t.Fatal(err)
		}
		got := opts.stream(nil)
		if got.Endpoint != "tcp://a:1,tcp://b:1" || got.Order != client.Listed || got.SpreadKey != "n1" || got.TLS.CertFile != "c" || got.Consumer != "" {
			t.Errorf("%q: the stream's configuration is %+v", args, got)
		}
	}
	if opts, err := parsed(); err != nil || opts.stream(nil).Endpoint != client.DefaultEndpoint || opts.stream(nil).Order != client.Random {
		t.Errorf("without flags the configuration is %+v, with the error %v", opts.stream(nil), err)
	}
	// The shard of n1 of 4 is that of package shard.
	if opts, err := parsed("--podconfig-endpoint=tcp://gateway-{shard/4}:1", "--podconfig-cert-file=c"); err != nil ||
		opts.stream(nil).Endpoint != fmt.Sprintf("tcp://gateway-%d:1", shard.Of("n1", 4)) {
		t.Errorf("the endpoint of a shard is %v, with the error %v", opts, err)
	}
	for _, tc := range []struct{ arg, want string }{
		{"--podconfig-endpoint=tcp://gateway-{shard/0}:1", "want {shard/N}"},
		{"--podconfig-endpoint=", "--podconfig-endpoint : want unix:///path"},
		{"--podconfig-endpoint=localhost:1", "want unix:///path or tcp://host:port"},
		{"--podconfig-endpoint=unix:///s,tcp://h:1", "don't go together"},
		{"--podconfig-endpoint-order=first", "--podconfig-endpoint-order first: want random or listed"},
	} {
		if _, err := parsed(tc.arg); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: the error is %v; want one with %q", tc.arg, err, tc.want)
		}
	}
}

// TestReadOnlyDirs: the directory of each socket is read-only for pods, and none if podconfigd is elsewhere.
func TestReadOnlyDirs(t *testing.T) {
	got := readOnlyDirs([]string{"unix:///run/a/s", "unix:///run/b/s"}, "/var/lib/podexecd")
	if want := []string{"/run/a", "/run/b", "/var/lib/podconfigd", "/var/lib/podexecd/podconfigd"}; !slices.Equal(got, want) {
		t.Errorf("the directories are %q; want %q", got, want)
	}
	if got := readOnlyDirs([]string{"tcp://a:1", "tcp://b:1"}, "/var/lib/podexecd"); got != nil {
		t.Errorf("the directories are %q; want none", got)
	}
}
