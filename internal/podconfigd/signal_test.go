package podconfigd

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/podstream/podstream/internal/mergesvc/merge"
)

// TestReloadSignal: on SIGHUP a process also reads the files that the configuration only names: here the kubeconfig
// of an API server that can't be reached. Its metrics count it.
func TestReloadSignal(t *testing.T) {
	dir := shortDir(t)
	kubeconfig := filepath.Join(dir, "kube.conf")
	write := func(port int) {
		put(t, kubeconfig, strings.Replace(kubeconfigText, "SERVER", fmt.Sprintf("http://127.0.0.1:%d", port), 1))
	}
	write(1)
	put(t, filepath.Join(dir, "config"), sourcesFile+"apiServer: {kubeconfig: kube.conf}\nfiles: [{path: manifests}]\n")
	writeManifest(t, dir, "web", "one")
	log := newLog()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "--root-dir", filepath.Join(dir, "root"), "--listen", "unix://"+filepath.Join(dir, "s"),
		"--hostname-override", "node", "--config", filepath.Join(dir, "config"), "--metrics-address", "127.0.0.1:0")
	cmd.Env, cmd.Stderr = append(os.Environ(), asDaemon+"=1"), log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	signal := func(s syscall.Signal) {
		t.Helper()
		if err := cmd.Process.Signal(s); err != nil {
			t.Error(err)
		}
	}
	defer func() {
		signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("podconfigd ends with %v", err)
		}
		if strings.Contains(log.String(), "secret") {
			t.Errorf("the log has a secret:\n%s", log)
		}
	}()
	r := &running{t: t, api: dial(t, dir)}
	s := r.watch(nil)
	untilReady(t, s)
	location := func() string {
		for _, source := range r.sources() {
			if source.GetName() == "api" {
				return source.GetLocation()
			}
		}
		return ""
	}
	if got := location(); got != "http://127.0.0.1:1" {
		t.Fatalf("the API server is at %q", got)
	}
	write(2)
	signal(syscall.SIGHUP)
	log.await(t, "the configuration was read again", 1)
	if got := location(); got != "http://127.0.0.1:2" {
		t.Errorf("after SIGHUP the API server is at %q; want the kubeconfig's new one", got)
	}
	if err := os.Remove(kubeconfig); err != nil {
		t.Fatal(err)
	}
	signal(syscall.SIGHUP)
	log.await(t, "config:3: apiServer.kubeconfig: ", 1)
	if got := location(); got != "http://127.0.0.1:2" {
		t.Errorf("after SIGHUP without the kubeconfig the API server is at %q; want it where it was", got)
	}
	put(t, filepath.Join(dir, "config"), "nonsense")
	signal(syscall.SIGHUP)
	log.await(t, "the configuration has errors", 1)
	text := scrape(t, metricsAddress.FindStringSubmatch(log.String())[1])
	for _, want := range []string{"podstream_config_reload_total 3\n", "podstream_config_reload_errors_total 1\n",
		"podstream_config_reload_last_success_timestamp_seconds 1"} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
	// None of that concerned the consumer: its next op is this one.
	writeManifest(t, dir, "db", "one")
	if got := nextOps(t, s); got != "ADD file db-node" {
		t.Errorf("after the reloads came %q; want nothing but what changed since", got)
	}
}

var metricsAddress = regexp.MustCompile(`msg="metrics are served" address=(\S+)`)

func scrape(t *testing.T, address string) string {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// hangup is an Extra that sends SIGHUP to its own process while the flags are parsed.
type hangup struct{ *extra }

func (h hangup) Sources() ([]merge.Source, error) {
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		return nil, err
	}
	return h.extra.Sources()
}

// TestSignalAtStart: SIGHUP doesn't kill a podconfigd that hasn't read its files yet; it is heeded once it has.
func TestSignalAtStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log, dir, ended := newLog(), shortDir(t), make(chan int, 1)
	args := []string{"--root-dir", filepath.Join(dir, "root"), "--listen", "unix://" + filepath.Join(dir, "s"), "--api=here", "--pod-manifest-path="}
	go func() { ended <- Program(hangup{newExtra("api")}).Run(ctx, args, t.Output(), log) }()
	log.await(t, "SIGHUP: reading the configuration again", 1)
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("podconfigd ends with code %d; want 0", code)
	}
}
