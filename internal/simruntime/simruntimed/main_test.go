package main

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	remote "k8s.io/cri-client/pkg"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// upWriter closes up when the daemon logs that it is up.
type upWriter struct {
	log bytes.Buffer
	up  chan struct{}
}

func (w *upWriter) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "simruntimed is up") {
		close(w.up)
	}
	return w.log.Write(p)
}

// The daemon serves both CRI services on its socket until its context ends.
func TestRun(t *testing.T) {
	socket := "unix://" + filepath.Join(t.TempDir(), "cri.sock")
	stderr := &upWriter{up: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() {
		code <- program.Run(ctx, []string{"--listen", socket, "--state-dir", t.TempDir()}, io.Discard, stderr)
	}()
	<-stderr.up

	runtime, err := remote.NewRemoteRuntimeServiceBuilder().WithEndpoint(socket).WithConnectionTimeout(time.Minute).Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runtime.ListPodSandbox(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if err := runtime.Close(t.Context()); err != nil {
		t.Error(err)
	}
	images, err := remote.NewRemoteImageServiceBuilder().WithEndpoint(socket).WithConnectionTimeout(time.Minute).Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := images.ListImages(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if err := images.Close(t.Context()); err != nil {
		t.Error(err)
	}
	cancel()
	if got := <-code; got != 0 {
		t.Errorf("exit code %d; log: %s", got, stderr.log.String())
	}
}

func TestRunMistakes(t *testing.T) {
	for _, test := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{args: []string{"--help"}, code: 0, stdout: "--listen"},
		{args: []string{"--no-such-flag"}, code: 2, stderr: "unknown flag"},
		{args: []string{"argument"}, code: 2, stderr: `unexpected argument "argument"`},
		{args: []string{"--listen", "/no/scheme"}, code: 1, stderr: "unix:///path"},
	} {
		var stdout, stderr bytes.Buffer
		code := program.Run(t.Context(), test.args, &stdout, &stderr)
		if code != test.code || !strings.Contains(stdout.String(), test.stdout) || !strings.Contains(stderr.String(), test.stderr) {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", test.args, code, stdout.String(), stderr.String())
		}
	}
}
