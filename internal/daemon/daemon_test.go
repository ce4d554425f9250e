package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestLockRootDir: a directory is one daemon's at a time.
func TestLockRootDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "root")
	release, err := LockRootDir(dir)
	if err != nil {
		t.Fatalf("lock a new directory: %v; want the lock", err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o007 != 0 {
		t.Errorf("the directory is %v, %v; want it there, and closed to others", info, err)
	}
	if _, err := LockRootDir(dir); err == nil || !strings.Contains(err.Error(), "another process uses it") ||
		!strings.Contains(err.Error(), dir) {
		t.Errorf("lock it a second time: %v; want an error that names the directory and says that another process uses it", err)
	}
	if other, err := LockRootDir(t.TempDir()); err != nil {
		t.Errorf("lock another directory meanwhile: %v; want the lock", err)
	} else {
		other()
	}
	release()
	again, err := LockRootDir(dir)
	if err != nil {
		t.Fatalf("lock it after release: %v; want the lock", err)
	}
	again()
}

func TestLockRootDirOnAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LockRootDir(file); err == nil || !strings.Contains(err.Error(), "--root-dir") {
		t.Errorf("lock a file: %v; want an error that names the flag", err)
	}
}

func parse(t *testing.T, args ...string) *Flags {
	t.Helper()
	f := &Flags{}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f.AddFlags(fs, "podconfigd")
	if err := fs.Parse(args); err != nil {
		t.Fatalf("parse %q: %v; want the flags", args, err)
	}
	return f
}

func TestFlags(t *testing.T) {
	defaults := &Flags{
		RootDir: "/var/lib/podstream/podconfigd", Listen: []string{"unix:///run/podstream/podconfigd.sock"}, LogFormat: "text",
		Limits: allLimits(1024, 256, 500),
	}
	if diff := cmp.Diff(defaults, parse(t), cmpopts.IgnoreUnexported(Flags{})); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	want := &Flags{
		RootDir: "/r", Listen: []string{"unix:///a,b", "unix:///c"}, HostnameOverride: "n1", MetricsAddress: "127.0.0.1:9",
		LogFormat: "json", Verbosity: 5, TLSCertFile: "/c", TLSPrivateKeyFile: "/k", ClientCAFile: "/ca", AccessFile: "/a",
		AllowUIDs: []uint{7, 8, 9}, Limits: allLimits(1, 2, 3),
	}
	got := parse(t, "--root-dir=/r", "--listen=unix:///a,b", "--listen=unix:///c", "--hostname-override=n1",
		"--metrics-address=127.0.0.1:9", "--log-format=json", "-v5", "--tls-cert-file=/c", "--tls-private-key-file=/k",
		"--client-ca-file=/ca", "--access-file=/a", "--allow-uid=7", "--allow-uid=8,9", "--max-connections-per-peer=1",
		"--max-streams-per-connection=2", "--max-requests-per-second=3")
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Flags{})); diff != "" {
		t.Errorf("all flags given (-want +got):\n%s", diff)
	}
	if got := parse(t, "-v", "2").Verbosity; got != 2 {
		t.Errorf("-v 2 gives verbosity %d; want 2", got)
	}
}

// TestNodeName: trimmed and in lower case, as the kubelet does it, and refused if it is no DNS subdomain.
func TestNodeName(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for override, want := range map[string]string{"": strings.ToLower(host), "Node-1": "node-1", "  n.Example \n": "n.example"} {
		got, err := (&Flags{HostnameOverride: override}).NodeName()
		if err != nil || got != want {
			t.Errorf("--hostname-override %q: node %q, %v; want %q", override, got, err, want)
		}
	}
	for _, override := range []string{" ", "my_node", "a b", "-a", "a.", "n\u00f6de", "a/b", strings.Repeat("a", 254)} {
		if got, err := (&Flags{HostnameOverride: override}).NodeName(); err == nil || !strings.Contains(err.Error(), "--hostname-override") {
			t.Errorf("--hostname-override %q: node %q, %v; want an error that names the flag", override, got, err)
		}
	}
}

// The verbosity changes while the log is written, also that of loggers that were made of it before.
func TestSetVerbosity(t *testing.T) {
	var out bytes.Buffer
	flags := &Flags{LogFormat: "text"}
	log, err := flags.Logger(&out)
	if err != nil {
		t.Fatal(err)
	}
	log = log.With("pod", "default/web")
	for _, step := range []struct {
		verbosity string
		fails     bool
		logged    int
	}{{"4", false, 1}, {"x", true, 2}, {" 10\n", false, 3}, {"0", false, 3}} {
		if err := flags.SetVerbosity(step.verbosity); (err != nil) != step.fails {
			t.Errorf("%q: %v", step.verbosity, err)
		}
		log.Debug("detail")
		if got := strings.Count(out.String(), "detail"); got != step.logged {
			t.Errorf("%q: %d details are logged in all; want %d", step.verbosity, got, step.logged)
		}
	}
}

func TestLogger(t *testing.T) {
	for _, tc := range []struct {
		format    string
		verbosity int
		wantDebug bool
	}{{"text", 0, false}, {"text", 3, false}, {"text", 4, true}, {"json", 0, false}, {"json", 9, true}} {
		var out bytes.Buffer
		log, err := (&Flags{LogFormat: tc.format, Verbosity: tc.verbosity}).Logger(&out)
		if err != nil {
			t.Fatalf("--log-format %s: %v; want a logger", tc.format, err)
		}
		log.Debug("detail")
		log.Info("pod ADD", "pod", "default/web")
		if got := strings.Contains(out.String(), "detail"); got != tc.wantDebug {
			t.Errorf("--log-format %s -v %d logs debug messages: %v; want %v", tc.format, tc.verbosity, got, tc.wantDebug)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		last := lines[len(lines)-1]
		if tc.format == "text" && !strings.Contains(last, `msg="pod ADD" pod=default/web`) {
			t.Errorf("--log-format text writes %q; want msg and pod as key=value", last)
		}
		var fields map[string]any
		if tc.format == "json" && (json.Unmarshal([]byte(last), &fields) != nil || fields[slog.MessageKey] != "pod ADD" || fields["pod"] != "default/web") {
			t.Errorf("--log-format json writes %q; want an object with msg and pod", last)
		}
	}
	if _, err := (&Flags{LogFormat: "xml"}).Logger(io.Discard); err == nil || !strings.Contains(err.Error(), "want text or json") {
		t.Errorf("--log-format xml: %v; want an error that says what is wanted", err)
	}
}

// TestServeMetrics reads the page while it is served; when the context ends, so does the server.
func TestServeMetrics(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- ServeMetrics(ctx, l, Page{Registry: NewRegistry()}) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + l.Addr().String() + "/metrics")
	if err != nil {
		t.Fatalf("GET /metrics: %v; want the page", err)
	}
	page, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"go_goroutines ", "process_start_time_seconds "} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q; want Go's and the process's metrics:\n%.500s", want, page)
		}
	}
	if resp, err = client.Get("http://" + l.Addr().String() + "/"); err != nil {
		t.Fatal(err)
	} else if _ = resp.Body.Close(); resp.StatusCode != http.StatusNotFound {
		t.Errorf("GET / gives %s; want 404, as nothing is served there", resp.Status)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ServeMetrics returns %v; want nil", err)
	}
	if conn, err := net.Dial("tcp", l.Addr().String()); err == nil {
		_ = conn.Close()
		t.Error("the address still answers after the end; want it closed")
	}
}

func TestServeMetricsAddresses(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, address := range []string{"", "127.0.0.1:0"} {
		l, err := listenMetrics(address)
		if err != nil {
			t.Fatal(err)
		}
		if err := ServeMetrics(ctx, l, Page{Registry: NewRegistry()}); err != nil {
			t.Errorf("ServeMetrics on %q until the end: %v; want nil", address, err)
		}
	}
	if _, err := listenMetrics("no port"); err == nil || !strings.Contains(err.Error(), "--metrics-address") {
		t.Errorf("listenMetrics on \"no port\": %v; want an error that names the flag", err)
	}
}
