package podexecd

import (
	"log/slog"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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
	log, settings := slog.New(slog.DiscardHandler), &execconfig.Settings{RuntimeEndpoint: "unix://" + socket}
	if err := checkKubelet(t.Context(), settings, false, log); err != nil {
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
	err = checkKubelet(t.Context(), settings, false, log)
	for _, want := range []string{"a kubelet runs on this machine", socket, "process "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v; want one with %q", err, want)
		}
	}
}
