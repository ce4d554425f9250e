package podctl

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

type attachStream = grpc.BidiStreamingServer[podexecv1.AttachRequest, podexecv1.AttachResponse]

// runAttach runs podctl attach against a fake with the pod web-node1, which first sends opened.
func (n *node) runAttach(
	ctx context.Context, stdin io.Reader, opened *podexecv1.AttachOpened, answer func(*podexecv1.AttachStart, attachStream) error, args ...string,
) (code int) {
	n.t.Helper()
	n.busy(&busyPodexecd{
		pods: []*podexecv1.ObservedPod{runningPod(n.t, "default", "web-node1")},
		attach: func(start *podexecv1.AttachStart, stream attachStream) error {
			if err := stream.Send(&podexecv1.AttachResponse{Message: &podexecv1.AttachResponse_Opened{Opened: opened}}); err != nil {
				return err
			}
			return answer(start, stream)
		},
	})
	return Run(ctx, Config{
		Args:  append([]string{"--podexec-endpoint=unix://" + n.socket("podexecd"), "attach"}, args...),
		Stdin: stdin, Stdout: n.stdout, Stderr: n.stderr, Hostname: "node1",
	})
}

func attachStdout(text string) *podexecv1.AttachResponse {
	return &podexecv1.AttachResponse{Message: &podexecv1.AttachResponse_Stdout{Stdout: []byte(text)}}
}

const prompt = "If you don't see a command prompt, try pressing enter.\n"

// Input passes to its end, output byte for byte, and the end of the stream is no failure.
func TestAttach(t *testing.T) {
	n := newNode(t)
	opened := &podexecv1.AttachOpened{Container: "app", Stdin: true, RestartsAlways: true}
	code := n.runAttach(t.Context(), strings.NewReader("hello"), opened, func(start *podexecv1.AttachStart, stream attachStream) error {
		if !start.GetStdin() || start.GetSize() != nil || start.GetContainer() != "app" || start.GetRef().GetName() != "web-node1" {
			t.Errorf("asked for %v", start)
		}
		text := ""
		for {
			m, err := stream.Recv()
			if err != nil {
				return err
			}
			if m.GetStdinClosed() {
				break
			}
			text += string(m.GetStdin())
		}
		if err := stream.Send(attachStdout("read " + text + "\x1b\n")); err != nil {
			return err
		}
		return stream.Send(&podexecv1.AttachResponse{Message: &podexecv1.AttachResponse_Stderr{Stderr: []byte("aside\n")}})
	}, "-i", "-c", "app", "web")
	if code != exitOK || n.stdout.String() != "read hello\x1b\n" || n.stderr.String() != prompt+"aside\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, n.stdout, n.stderr)
	}
}

// Without -i standard input isn't read, and -q prints nothing of podctl's own.
func TestAttachQuietly(t *testing.T) {
	n := newNode(t)
	in := strings.NewReader("kept")
	code := n.runAttach(t.Context(), in, &podexecv1.AttachOpened{Container: "app"}, func(start *podexecv1.AttachStart, stream attachStream) error {
		if start.GetStdin() {
			t.Errorf("asked for %v", start)
		}
		return stream.Send(attachStdout("text"))
	}, "-q", "web")
	if code != exitOK || in.Len() != len("kept") || n.stdout.String() != "text" || n.stderr.String() != "" {
		t.Errorf("exit code %d, %d bytes left, stdout %q, stderr %q", code, in.Len(), n.stdout, n.stderr)
	}
}

// Ctrl-C detaches, and that is no failure.
func TestAttachInterrupted(t *testing.T) {
	n := newNode(t)
	ctx, cancel := context.WithCancel(t.Context())
	code := n.runAttach(ctx, strings.NewReader(""), &podexecv1.AttachOpened{Container: "app"}, func(_ *podexecv1.AttachStart, stream attachStream) error {
		n.stderr.await(t, prompt)
		cancel()
		<-stream.Context().Done()
		return nil
	}, "web")
	if code != exitOK || n.stderr.String() != prompt {
		t.Errorf("exit code %d, stderr %q", code, n.stderr)
	}
}

func TestAttachFails(t *testing.T) {
	n := newNode(t)
	code := n.runAttach(t.Context(), strings.NewReader(""), &podexecv1.AttachOpened{Container: "app"}, func(*podexecv1.AttachStart, attachStream) error {
		return status.Error(codes.FailedPrecondition, "container app of pod web: no streams\x1b")
	}, "web")
	if code != exitFailed || !strings.Contains(n.stderr.String(), `container app of pod web: no streams\x1b`) {
		t.Errorf("exit code %d, stderr %q", code, n.stderr)
	}
}

// The container's lacks are reported, and its terminal isn't used then.
func TestAttachLacks(t *testing.T) {
	n := newNode(t)
	_, program := pseudoterminal(t)
	before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	code := n.runAttach(t.Context(), program, &podexecv1.AttachOpened{Container: "app"}, func(_ *podexecv1.AttachStart, stream attachStream) error {
		if now, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS); err != nil || !cmp.Equal(before, now) {
			t.Errorf("the terminal has changed; error %v", err)
		}
		return stream.Send(attachStdout("text"))
	}, "-it", "web")
	for _, want := range []string{"container app has no standard input", "Unable to use a TTY - container app did not allocate one"} {
		if code != exitOK || !strings.Contains(n.stderr.String(), want) {
			t.Errorf("exit code %d, stderr %q; want %q", code, n.stderr, want)
		}
	}
}

// At a terminal keys and sizes are passed on, the first size is another one so that programs draw again, and the
// terminal is restored before podctl's last line.
func TestAttachTerminal(t *testing.T) {
	n := newNode(t)
	user, program := pseudoterminal(t)
	resizeTo(t, program, 80, 24)
	before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	opened := &podexecv1.AttachOpened{Container: "app", Tty: true, Stdin: true, RestartsAlways: true}
	code := n.runAttach(t.Context(), program, opened, func(start *podexecv1.AttachStart, stream attachStream) error {
		if size := start.GetSize(); size.GetWidth() != 81 || size.GetHeight() != 25 {
			t.Errorf("asked for %v", start)
		}
		resized := false
		for typed := ""; typed != "a\x03"; {
			m, err := stream.Recv()
			if err != nil {
				return err
			}
			if size := m.GetResize(); size.GetWidth() == 80 && size.GetHeight() == 24 && !resized {
				resized = true
				if _, err := user.WriteString("a\x03"); err != nil {
					return err
				}
			}
			typed += string(m.GetStdin())
		}
		if _, err := user.WriteString("\n"); err != nil {
			return err
		}
		return stream.Send(attachStdout("bye"))
	}, "-it", "web")
	const end = "byeSession ended, resume using 'podctl attach -n default web-node1 -c app -i -t' command when the pod is running\n"
	if code != exitOK || n.stderr.String() != prompt || n.stdout.String() != end {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, n.stdout, n.stderr)
	}
	after, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the terminal afterwards (-before +after):\n%s", diff)
	}
	_ = user.Close()
}

// A hangup restores the terminal, and ends no container: the call is canceled.
func TestAttachHangup(t *testing.T) {
	n := newNode(t)
	user, program := pseudoterminal(t)
	before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	code := n.runAttach(t.Context(), program, &podexecv1.AttachOpened{Container: "app", Tty: true, Stdin: true},
		func(_ *podexecv1.AttachStart, stream attachStream) error {
			if _, err := stream.Recv(); err != nil { // A size: podctl waits for the process.
				return err
			}
			if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
				return err
			}
			for {
				if m, err := stream.Recv(); err != nil || m.GetStdinClosed() {
					gone <- err
					return err
				}
			}
		}, "-it", "web")
	if err := <-gone; err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the call ends with %v; want that it is canceled, and not an end of the input", err)
	}
	after, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); code != exitOK || diff != "" {
		t.Errorf("exit code %d, the terminal afterwards (-before +after):\n%s", code, diff)
	}
	_ = user.Close()
}
