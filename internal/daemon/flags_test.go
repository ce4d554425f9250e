package daemon

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/grpcserver"
)

func TestAccess(t *testing.T) {
	cfg, limits, err := parse(t).Access()
	if err != nil {
		t.Fatalf("the defaults: %v; want them accepted", err)
	}
	if diff := cmp.Diff(access.Config{}, cfg); diff != "" {
		t.Errorf("the defaults let others in than root and the daemon's own user (-want +got):\n%s", diff)
	}
	wantLimits := allLimits(1024, 256, 500)
	if diff := cmp.Diff(wantLimits, limits); diff != "" {
		t.Errorf("default limits (-want +got):\n%s", diff)
	}
	cfg, limits, err = parse(t, "--listen=tcp://:9443", "--tls-cert-file=/c", "--tls-private-key-file=/k", "--client-ca-file=/ca",
		"--access-file=/a", "--allow-uid=7", "--allow-uid=4294967294", "--max-connections-per-peer=10",
		"--max-streams-per-connection=20", "--max-requests-per-second=30", "--max-connections=9", "--max-handshakes=11", "--max-calls-per-peer=21",
		"--max-request-bytes=65536", "--request-timeout=1m", "--handshake-timeout=2s").Access()
	if err != nil {
		t.Fatalf("all flags: %v; want them accepted", err)
	}
	want := access.Config{CertFile: "/c", KeyFile: "/k", ClientCAFile: "/ca", File: "/a", AllowUIDs: []uint32{7, 4294967294}}
	if diff := cmp.Diff(want, cfg); diff != "" {
		t.Errorf("access (-want +got):\n%s", diff)
	}
	wantLimits = grpcserver.Limits{
		MaxConnections: 9, MaxConnectionsPerPeer: 10, MaxHandshakes: 11, MaxStreamsPerConnection: 20, MaxCallsPerPeer: 21, RequestsPerSecond: 30,
		MaxRequestBytes: 65536, RequestTimeout: time.Minute, HandshakeTimeout: 2 * time.Second,
	}
	if diff := cmp.Diff(wantLimits, limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

// allLimits are the limits of flags, of which three aren't the default.
func allLimits(connectionsPerPeer, streamsPerConnection, requestsPerSecond int) grpcserver.Limits {
	return grpcserver.Limits{
		MaxConnections: 10_000, MaxConnectionsPerPeer: connectionsPerPeer, MaxHandshakes: runtime.GOMAXPROCS(0),
		MaxStreamsPerConnection: streamsPerConnection, MaxCallsPerPeer: 2048, RequestsPerSecond: requestsPerSecond,
		MaxRequestBytes: 4 << 20, RequestTimeout: 30 * time.Second, HandshakeTimeout: 10 * time.Second,
	}
}

// Without TCP the files are those of the node's API, of which some are enough.
func TestAccessWithoutTCP(t *testing.T) {
	for _, args := range [][]string{{"--client-ca-file=/ca"}, {"--tls-cert-file=/c", "--tls-private-key-file=/k"}} {
		if cfg, _, err := parse(t, args...).Access(); err != nil || !cmp.Equal(cfg, access.Config{}) {
			t.Errorf("%q: %+v, %v; want no TLS, and no error", args, cfg, err)
		}
	}
}

// TestAccessMistakes: each error names the missing flag.
func TestAccessMistakes(t *testing.T) {
	const tcp = "--listen=tcp://127.0.0.1:9443"
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"TCP without TLS", []string{"--listen=unix:///s", tcp}, "--listen tcp://127.0.0.1:9443: TCP is served only with mutual TLS; " +
			"give --tls-cert-file and --tls-private-key-file and --client-ca-file too, or use unix:///path"},
		{"TCP without a client CA", []string{tcp, "--tls-cert-file=c", "--tls-private-key-file=k"}, "give --client-ca-file too"},
		{"TCP without roles", []string{tcp, "--tls-cert-file=c", "--tls-private-key-file=k", "--client-ca-file=ca"}, "give --access-file"},
		{"a certificate without its key", []string{"--tls-cert-file=c", "--client-ca-file=ca"}, "needs --tls-private-key-file"},
		{"a key alone", []string{"--tls-private-key-file=k"}, "needs --tls-cert-file"},
		{"no user", []string{"--allow-uid=4294967295"}, "--allow-uid 4294967295: no user"},
		{"no connections", []string{"--max-connections-per-peer=0"}, "--max-connections-per-peer 0: want a number from 1"},
		{"no streams", []string{"--max-streams-per-connection=-1"}, "--max-streams-per-connection -1: want a number from 1"},
		{"no requests", []string{"--max-requests-per-second=0"}, "--max-requests-per-second 0: want a number from 1"},
		{"no handshakes", []string{"--max-handshakes=0"}, "--max-handshakes 0: want a number from 1"},
		{"tiny requests", []string{"--max-request-bytes=1"}, "--max-request-bytes 1: want a number from 65536 to 1073741824"},
		{"no time", []string{"--handshake-timeout=0"}, "--handshake-timeout 0s: want a time from 1s"},
		{"too much time", []string{"--request-timeout=2h"}, "--request-timeout 2h0m0s: want a time from 1s to 1h0m0s"},
		{"more than there are", []string{"--max-requests-per-second=9999999999"}, "want a number from 1 to"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, _, err := parse(t, tc.args...).Access(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%q: %v; want an error with %q", tc.args, err, tc.want)
			}
		})
	}
}
