package podexecd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstream/podstream/internal/execconfig"
)

// TestKubeletOnTheNode: podexecd doesn't start while a kubelet uses its runtime, and names it.
func TestKubeletOnTheNode(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "runtime.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	log, opts := slog.New(slog.DiscardHandler), &Options{settings: &execconfig.Settings{RuntimeEndpoint: "unix://" + socket}}
	if err := checkKubelet(t.Context(), opts, log); err != nil {
		t.Fatal(err)
	}
	// The shell waits for its input, under the name and with the arguments of a kubelet.
	shell := exec.Command("/bin/sh")
	shell.Args = []string{"kubelet", "-c", "echo; read line", "--container-runtime-endpoint=" + socket}
	input, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		_ = shell.Wait()
	})
	if _, err := output.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	err = checkKubelet(t.Context(), opts, log)
	for _, want := range []string{"a kubelet runs on this machine", socket, "process "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v; want one with %q", err, want)
		}
	}
}

// asked fails the first calls, and then returns pods.
type asked struct {
	failures int
	pods     []string
}

func (a *asked) NotAdopted(context.Context) ([]string, error) {
	if a.failures--; a.failures >= 0 {
		return nil, errors.New("the runtime is starting")
	}
	return a.pods, nil
}

// TestAdoptionAsksAgain: a runtime that doesn't answer neither ends podexecd nor lets it start beside a kubelet's pods.
func TestAdoptionAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		logger := slog.New(slog.NewTextHandler(&log, nil))
		if err := checkAdoption(t.Context(), &asked{failures: 2}, []string{"/var/lib/podstream"}, logger); err != nil {
			t.Errorf("without pods of a kubelet: %v", err)
		}
		if n := strings.Count(log.String(), "the runtime is starting"); n != 1 {
			t.Errorf("the log is %q; want the failure once", log.String())
		}
		err := checkAdoption(t.Context(), &asked{failures: 2, pods: []string{"default/web"}}, []string{"/var/lib/podstream"}, logger)
		if err == nil || !strings.Contains(err.Error(), "default/web") {
			t.Errorf("with a pod of a kubelet: %v; want an error that names it", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := checkAdoption(ctx, &asked{failures: 1 << 30}, []string{"/var/lib/podstream"}, logger); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a runtime that never answers: %v", err)
		}
	})
}
