package simruntime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// stream connects to the URL that a call returned, and copies the streams.
func stream(t *testing.T, address string, options remotecommand.StreamOptions) error {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	executor, err := remotecommand.NewSPDYExecutor(&restclient.Config{}, "POST", u)
	if err != nil {
		t.Fatal(err)
	}
	return executor.StreamWithContext(t.Context(), options)
}

func TestStreamedExec(t *testing.T) {
	h := start(t, Config{Streams: true})
	id := h.sample("web", "pause")
	var stdout, stderr bytes.Buffer
	for name, tt := range map[string]struct {
		command        []string
		stdin          string
		stdout, stderr string
		code           int
	}{
		"stdin":   {command: []string{"stdin"}, stdin: "hello", stdout: "hello"},
		"exit":    {command: []string{"exit", "7"}, code: 7},
		"mistake": {command: []string{"what"}, stderr: "sample: unknown command \"what\"\n", code: 2},
		"seq":     {command: []string{"seq", "write", "/f", "a", ";", "cat", "/f"}, stdout: "a\n"},
	} {
		stdout.Reset()
		stderr.Reset()
		resp, err := h.runtime.Exec(t.Context(), &runtimeapi.ExecRequest{
			ContainerId: id, Cmd: append([]string{"/sample"}, tt.command...), Stdin: true, Stdout: true, Stderr: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		err = stream(t, resp.GetUrl(), remotecommand.StreamOptions{Stdin: strings.NewReader(tt.stdin), Stdout: &stdout, Stderr: &stderr})
		code := 0
		if exit, ok := errors.AsType[utilexec.CodeExitError](err); ok {
			code, err = exit.Code, nil
		}
		if err != nil || code != tt.code || stdout.String() != tt.stdout || stderr.String() != tt.stderr {
			t.Errorf("%s: %v, code %d, stdout %q, stderr %q", name, err, code, &stdout, &stderr)
		}
	}
	if _, err := h.runtime.Exec(t.Context(), &runtimeapi.ExecRequest{ContainerId: "none", Stdout: true}); status.Code(err) != codes.NotFound {
		t.Errorf("in an unknown container: %v", err)
	}
}

// A container that reads waits until a client attaches, and ends when the client's input ends.
func TestStreamedAttach(t *testing.T) {
	h := start(t, Config{Streams: true})
	sandbox, pod := h.pod("web")
	config := containerConfig("main", "stdin")
	config.Stdin, config.StdinOnce = true, true
	id := h.run(sandbox, pod, config)
	resp, err := h.runtime.Attach(t.Context(), &runtimeapi.AttachRequest{ContainerId: id, Stdin: true, Stdout: true})
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	if err := stream(t, resp.GetUrl(), remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &stdout}); err != nil || stdout.String() != "hello" {
		t.Errorf("%v, %q", err, &stdout)
	}
	h.wantExit(id, 0, "Completed")
}

// Without StdinOnce the end of a client's input detaches it, and the next client attaches to the same container.
func TestStreamedAttachAgain(t *testing.T) {
	h := start(t, Config{Streams: true})
	sandbox, pod := h.pod("web")
	config := containerConfig("main", "stdin")
	config.Stdin = true
	id := h.run(sandbox, pod, config)
	for _, typed := range []string{"one", "two"} {
		resp, err := h.runtime.Attach(t.Context(), &runtimeapi.AttachRequest{ContainerId: id, Stdin: true, Stdout: true})
		if err != nil {
			t.Fatal(err)
		}
		var stdout bytes.Buffer
		if err := stream(t, resp.GetUrl(), remotecommand.StreamOptions{Stdin: strings.NewReader(typed), Stdout: &stdout}); err != nil || stdout.String() != typed {
			t.Errorf("%v, %q; want %q", err, &stdout, typed)
		}
	}
	if got := h.status(id).GetState(); got != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("the container is %s after both clients have gone", got)
	}
}

// A test's program runs with the caller's streams.
func TestPrograms(t *testing.T) {
	h := start(t, Config{Streams: true, Programs: map[string]Program{"say": func(args []string, in io.Reader, out, stderr io.Writer) int32 {
		text, _ := io.ReadAll(in)
		fmt.Fprintf(out, "%q %s", args, text)
		fmt.Fprint(stderr, "aside")
		return 3
	}}})
	resp, err := h.runtime.Exec(t.Context(), &runtimeapi.ExecRequest{
		ContainerId: h.sample("web", "pause"), Cmd: []string{"say", "a"}, Stdin: true, Stdout: true, Stderr: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	err = stream(t, resp.GetUrl(), remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &stdout, Stderr: &stderr})
	if exit, ok := errors.AsType[utilexec.CodeExitError](err); !ok || exit.Code != 3 || stdout.String() != `["a"] hello` || stderr.String() != "aside" {
		t.Errorf("%v, stdout %q, stderr %q", err, &stdout, &stderr)
	}
}

func TestStreamedPortForward(t *testing.T) {
	h := start(t, Config{Streams: true, Dial: func(_ context.Context, pod string, _ int32) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			_, _ = io.WriteString(there, pod)
			_ = there.Close()
		}()
		return here, nil
	}})
	sandbox, _ := h.pod("web")
	resp, err := h.runtime.PortForward(t.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: sandbox})
	if err != nil {
		t.Fatal(err)
	}
	transport, upgrader, err := spdy.RoundTripperFor(&restclient.Config{})
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(resp.GetUrl())
	if err != nil {
		t.Fatal(err)
	}
	stop, ready, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	dialer := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, "POST", u)
	f, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, []string{"0:80"}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	go func() { done <- f.ForwardPorts() }()
	<-ready
	ports, err := f.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(ports[0].Local)})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(conn); err != nil || string(text) != "web" {
		t.Errorf("%q, %v", text, err)
	}
	_ = conn.Close()
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Without Config.Streams, the calls are Unimplemented.
func TestNoStreams(t *testing.T) {
	h := start(t, Config{})
	id := h.sample("web", "pause")
	if _, err := h.runtime.Attach(t.Context(), &runtimeapi.AttachRequest{ContainerId: id}); status.Code(err) != codes.Unimplemented {
		t.Errorf("Attach: %v", err)
	}
}

func TestCheckpoint(t *testing.T) {
	h := start(t, Config{})
	id := h.sample("web", "pause")
	path := filepath.Join(h.dir, "archive.tar")
	if err := h.runtime.CheckpointContainer(t.Context(), &runtimeapi.CheckpointContainerRequest{ContainerId: id, Location: path}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != id {
		t.Errorf("%q, %v", text, err)
	}
}
