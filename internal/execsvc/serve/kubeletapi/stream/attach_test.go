package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"k8s.io/client-go/tools/remotecommand"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestAttach(t *testing.T) {
	overBoth(t, func(t *testing.T, open opener) {
		n := newNode(t, nil)
		n.pod("web", func(c *runtimeapi.ContainerConfig) { c.Stdin, c.StdinOnce = true, true }, "stdin")
		var stdout bytes.Buffer
		e := open(n, "/attach/default/web/main", "input", "1", "output", "1", "error", "1")
		err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &stdout, Stderr: io.Discard})
		if err != nil || stdout.String() != "hello" {
			t.Errorf("error %v, stdout %q", err, &stdout)
		}
	})
}

// The container's spec determines whether there is a terminal, not the caller.
func TestAttachToTerminal(t *testing.T) {
	overBoth(t, func(t *testing.T, open opener) {
		n := newNode(t, nil)
		n.pod("web", func(c *runtimeapi.ContainerConfig) { c.Stdin, c.Tty = true, true }, "tty")
		e := open(n, "/attach/default/web/main", "output", "1", "error", "1")
		err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard, Stderr: io.Discard})
		if err == nil {
			t.Error("stderr of a terminal: no error")
		}
		queue := make(sizes, 1)
		queue <- remotecommand.TerminalSize{Width: 80, Height: 24}
		var stdout bytes.Buffer
		e = open(n, "/attach/default/web/main", "output", "1", "input", "1", "tty", "1")
		err = e.StreamWithContext(t.Context(), remotecommand.StreamOptions{
			Stdin: strings.NewReader(""), Stdout: &stdout, Tty: true, TerminalSizeQueue: queue,
		})
		close(queue)
		if err != nil || stdout.String() != "terminal 80x24\n" {
			t.Errorf("error %v, stdout %q", err, &stdout)
		}
	})
}

// dialEcho connects to an echo server; port 1 is closed.
func dialEcho(_ context.Context, pod string, port int32) (net.Conn, error) {
	if port == 1 {
		return nil, errors.New("connection refused")
	}
	here, there := net.Pipe()
	go func() {
		defer func() { _ = there.Close() }()
		_, _ = fmt.Fprintf(there, "%s:%d ", pod, port)
		buffer := make([]byte, 64<<10)
		for {
			n, err := there.Read(buffer)
			if err != nil {
				return
			}
			if _, err := there.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	return here, nil
}
