package podconfigd

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// kubeconfigText is a kubeconfig for SERVER.
const kubeconfigText = `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "SERVER"}}]
users: [{name: u, user: {token: secret}}]
`

// launchPolling is launchWith, but the files are polled all the time.
func launchPolling(t *testing.T, dir string, stderr io.Writer, args ...string) *running {
	t.Helper()
	return launchPollingEach(t, dir, 10*time.Millisecond, stderr, args...)
}

func launchPollingEach(t *testing.T, dir string, interval time.Duration, stderr io.Writer, args ...string) *running {
	t.Helper()
	args = append([]string{"--root-dir", filepath.Join(dir, "root"), "--listen", "unix://" + filepath.Join(dir, "s"),
		"--hostname-override", "node"}, args...)
	opts, err := parse(args, t.Output(), nil)
	if err != nil {
		t.Fatal(err)
	}
	opts.pollTime = interval
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, opts, stderr, nil) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("podconfigd ends with %v", err)
		}
	})
	return &running{t: t, api: dial(t, dir)}
}

// TestReloadName: a source that gets another name hands its pods over in one revision, and one whose successor can't
// be read keeps them meanwhile.
func TestReloadName(t *testing.T) {
	dir := shortDir(t)
	config := filepath.Join(dir, "config")
	writeManifest(t, dir, "web", "one")
	put(t, config, sourcesFile+"files: [{name: old, path: manifests}]\n")
	log := newLog()
	r := launchWith(t, dir, log, "--config", config, "--file-check-frequency=100ms")
	s := r.watch(nil)
	untilReady(t, s)
	put(t, config, sourcesFile+"files: [{name: new, path: manifests}]\n")
	if got := nextOps(t, s); got != "REMOVE file:old web-node, ADD file:new web-node" {
		t.Errorf("with another name came %q; want that the pod changes hands in one revision", got)
	}
	put(t, config, sourcesFile+"files: [{name: missing, path: missing}]\n")
	log.await(t, "the configuration was read again", 2)
	if got := names(r.sources()); got != "file:missing file:new" {
		t.Errorf("while the new one can't be read the sources are %q; want the former one behind it", got)
	}
	if err := os.Rename(filepath.Join(dir, "manifests"), filepath.Join(dir, "missing")); err != nil {
		t.Fatal(err)
	}
	if got := nextOps(t, s); got != "REMOVE file:new web-node, ADD file:missing web-node" {
		t.Errorf("when the new path is there came %q; want that the pod, which is another one, takes the former's place", got)
	}
}

// TestReloadLacksFile: sources whose files are missing don't delay others, at the start and later, show why, and are
// read when the files come, without a request.
func TestReloadLacksFile(t *testing.T) {
	dir := shortDir(t)
	in := func(path string) string { return filepath.Join(dir, path) }
	writeManifest(t, dir, "web", "one")
	put(t, in("config"), sourcesFile+"files: [{path: manifests}]\nurls: [{url: 'https://127.0.0.1:1/', caFile: ca.pem}]\n"+
		"apiServer: {kubeconfig: kube.conf}\n")
	if err := unix.Mkfifo(in("ca.pem"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := newLog()
	r := launchPolling(t, dir, log, "--config", in("config"))
	s := r.watch(nil)
	log.await(t, "podconfigd is up", 1)
	if got := nextOps(t, s); got != "ADD file web-node" {
		t.Errorf("at the start came %q; want the pod of the files", got)
	}
	for i, want := range map[int]string{1: "config:4: urls[0].caFile: " + in("ca.pem") + " isn't a regular file", 2: "config:5: apiServer.kubeconfig: open "} {
		if got := r.sources()[i].GetLastError(); !strings.Contains(got, want) {
			t.Errorf("the error of source %d is %q; want %q", i, got, want)
		}
	}
	put(t, in("kube.conf"), strings.Replace(kubeconfigText, "SERVER", "http://127.0.0.1:1", 1))
	log.await(t, "the configuration was read again", 1)
	if got := r.sources()[2].GetLocation(); got != "http://127.0.0.1:1" {
		t.Errorf("with the kubeconfig there the API server is at %s", got)
	}
	if text := log.String(); strings.Index(text, "isn't a regular file") > strings.Index(text, "podconfigd is up") {
		t.Errorf("podconfigd is up before its sources are:\n%s", text)
	}
	if n := strings.Count(log.String(), "isn't a regular file"); n != 1 {
		t.Errorf("the file that can't be used is told %d times; want once:\n%s", n, log)
	}
}

// TestKubeconfigAppears: a kubeconfig that a bootstrap makes after the start is used at once, not at the next poll.
func TestKubeconfigAppears(t *testing.T) {
	dir := shortDir(t)
	kubeconfig := filepath.Join(dir, "kubelet.conf")
	log := newLog()
	r := launchPollingEach(t, dir, time.Hour, log, "--kubeconfig", kubeconfig)
	log.await(t, "podconfigd is up", 1)
	put(t, kubeconfig, strings.Replace(kubeconfigText, "SERVER", "http://127.0.0.1:1", 1))
	log.await(t, "the configuration was read again", 1)
	if got := r.sources()[0].GetLocation(); got != "http://127.0.0.1:1" {
		t.Errorf("with the kubeconfig there the API server is at %s", got)
	}
}

// TestReloadKubeconfig: a kubeconfig that is written in place, as for new credentials, is noticed though nothing
// watches it.
func TestReloadKubeconfig(t *testing.T) {
	dir := shortDir(t)
	kubeconfig := filepath.Join(dir, "kube.conf")
	write := func(server string) {
		if err := os.WriteFile(kubeconfig, []byte(strings.Replace(kubeconfigText, "SERVER", server, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("http://127.0.0.1:1")
	log := newLog()
	r := launchPolling(t, dir, log, "--kubeconfig", kubeconfig)
	log.await(t, "podconfigd is up", 1)
	write("http://127.0.0.1:2")
	log.await(t, "the configuration was read again", 1)
	if got := r.sources()[0].GetLocation(); got != "http://127.0.0.1:2" {
		t.Errorf("with another kubeconfig the API server is at %s", got)
	}
}

// TestReloadRetries: a plan that was refused for a reason outside the files is retried, and logged once.
func TestReloadRetries(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	dir := shortDir(t)
	config := filepath.Join(dir, "config")
	writeManifest(t, dir, "web", "one")
	put(t, config, sourcesFile+"files: [{path: manifests}]\n")
	log := newLog()
	r := launchPolling(t, dir, log, "--config", config)
	untilReady(t, r.watch(nil))
	put(t, config, sourcesFile+"files: [{path: manifests}]\napiServer: {inCluster: true}\n")
	log.await(t, "the configuration has errors", 1)
	t.Setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "1")
	// There is no service account here, which is the source's own affair.
	log.await(t, "the configuration was read again", 1)
	if got := names(r.sources()); got != "file api" {
		t.Errorf("the sources are %q; want that of the API server too", got)
	}
	if n := strings.Count(log.String(), "the configuration has errors"); n != 1 {
		t.Errorf("that it is no good is told %d times; want once:\n%s", n, log)
	}
}
