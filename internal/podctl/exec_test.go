package podctl

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

type execStream = grpc.BidiStreamingServer[podexecv1.ExecRequest, podexecv1.ExecResponse]

// runExec runs podctl exec against a fake with the pod web-node1.
func (n *node) runExec(
	ctx context.Context, stdin io.Reader, answer func(*podexecv1.ExecStart, execStream) error, args ...string,
) (code int) {
	n.t.Helper()
	n.busy(&busyPodexecd{pods: []*podexecv1.ObservedPod{runningPod(n.t, "default", "web-node1")}, exec: answer})
	return Run(ctx, Config{
		Args:  append([]string{"--podexec-endpoint=unix://" + n.socket("podexecd"), "exec"}, args...),
		Stdin: stdin, Stdout: n.stdout, Stderr: n.stderr, Hostname: "node1",
	})
}

func TestExec(t *testing.T) {
	n := newNode(t)
	var asked *podexecv1.ExecStart
	code := n.runExec(t.Context(), strings.NewReader(strings.Repeat("in", 50_000)), func(start *podexecv1.ExecStart, stream execStream) error {
		asked = start
		text, err := received(stream)
		if err != nil {
			return err
		}
		for _, m := range []*podexecv1.ExecResponse{
			stdoutOf("read " + strconv.Itoa(len(text)) + "\x1b\n"),
			{Message: &podexecv1.ExecResponse_Stderr{Stderr: []byte("a complaint\n")}},
			exitWith(42),
		} {
			if err := stream.Send(m); err != nil {
				return err
			}
		}
		return nil
	}, "-i", "-c", "app", "web", "--", "wc", "-c", "--", "x")
	if code != 42 || n.stdout.String() != "read 100000\x1b\n" || n.stderr.String() != "a complaint\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, n.stdout, n.stderr)
	}
	want := &podexecv1.ExecStart{
		Ref: runningPod(t, "default", "web-node1").GetRef(), Container: "app", Command: []string{"wc", "-c", "--", "x"}, Stdin: true,
	}
	if diff := cmp.Diff(want, asked, protocmp.Transform()); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
}

// Without -i standard input isn't read.
func TestExecWithoutStdin(t *testing.T) {
	n := newNode(t)
	in := strings.NewReader("kept")
	code := n.runExec(t.Context(), in, func(start *podexecv1.ExecStart, stream execStream) error {
		if start.GetStdin() || start.GetTty() {
			t.Errorf("asked for %v", start)
		}
		return stream.Send(exitWith(0))
	}, "web", "--", "true")
	if code != exitOK || in.Len() != len("kept") || n.stderr.String() != "" {
		t.Errorf("exit code %d, %d bytes left, stderr %q", code, in.Len(), n.stderr)
	}
}

func TestExecFails(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func(*podexecv1.ExecStart, execStream) error
		want   string
	}{
		"it says why": {func(*podexecv1.ExecStart, execStream) error {
			return status.Error(codes.FailedPrecondition, "container app isn't running")
		}, "container app isn't running"},
		"it says nothing": {func(*podexecv1.ExecStart, execStream) error { return nil }, "without the command's exit code"},
		"it refuses": {func(*podexecv1.ExecStart, execStream) error {
			return status.Error(codes.PermissionDenied, "it takes the role operator")
		}, "refuses you: it takes the role operator"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			if code := n.runExec(t.Context(), strings.NewReader(""), tc.answer, "-i", "web", "--", "sh"); code != exitFailed || !strings.Contains(n.stderr.String(), tc.want) {
				t.Errorf("exit code %d, stderr %q; want %q", code, n.stderr, tc.want)
			}
		})
	}
}

// pseudoterminal is a terminal, and its other end.
func pseudoterminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = user.Close() })
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return user, program
}

func resizeTo(t *testing.T, f *os.File, width, height uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(f.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height}); err != nil {
		t.Fatal(err)
	}
}

// At a terminal keys and sizes are passed on; afterwards the terminal is restored.
func TestExecTerminal(t *testing.T) {
	n := newNode(t)
	user, program := pseudoterminal(t)
	resizeTo(t, program, 80, 24)
	before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	code := n.runExec(t.Context(), program, func(start *podexecv1.ExecStart, stream execStream) error {
		if size := start.GetSize(); !start.GetTty() || !start.GetStdin() || size.GetWidth() != 80 || size.GetHeight() != 24 {
			t.Errorf("asked for %v", start)
		}
		resizeTo(t, program, 100, 30)
		if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
			return err
		}
		// The second is Ctrl-C, which is a key like others now; the terminal passes keys on once it is raw.
		typed, resized := "", false
		for typed != "a\x03" || !resized {
			m, err := stream.Recv()
			if err != nil {
				return err
			}
			if size := m.GetResize(); size != nil {
				resized = size.GetWidth() == 100 && size.GetHeight() == 30
				if _, err := user.WriteString("a\x03"); err != nil {
					return err
				}
			}
			typed += string(m.GetStdin())
		}
		if _, err := user.WriteString("\n"); err != nil {
			return err
		}
		return stream.Send(exitWith(0))
	}, "-it", "web", "--", "sh")
	if code != exitOK || n.stderr.String() != "" {
		t.Errorf("exit code %d, stderr %q", code, n.stderr)
	}
	after, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the terminal afterwards (-before +after):\n%s", diff)
	}
	// What was left reading of it ends.
	_ = user.Close()
}

// As with kubectl, a script's standard input gets no terminal: the command would never see the end of the input.
func TestExecTerminalWithoutOne(t *testing.T) {
	for _, flags := range []string{"-t", "-it"} {
		n := newNode(t)
		code := n.runExec(t.Context(), strings.NewReader(""), func(start *podexecv1.ExecStart, stream execStream) error {
			if start.GetTty() || start.GetSize() != nil {
				t.Errorf("%s asked for %v", flags, start)
			}
			return stream.Send(exitWith(0))
		}, flags, "web", "--", "sh")
		if code != exitOK || !strings.Contains(n.stderr.String(), "standard input isn't a terminal") {
			t.Errorf("%s: exit code %d, stderr %q", flags, code, n.stderr)
		}
	}
}

// An abrupt end restores the terminal, too.
func TestExecTerminalAtAnAbruptEnd(t *testing.T) {
	for name, end := range map[string]func(*os.Process, execStream) error{
		"SIGHUP":  func(p *os.Process, _ execStream) error { return p.Signal(syscall.SIGHUP) },
		"SIGQUIT": func(p *os.Process, _ execStream) error { return p.Signal(syscall.SIGQUIT) },
		"SIGTERM": func(p *os.Process, _ execStream) error { return p.Signal(syscall.SIGTERM) },
		"its output has no reader": func(_ *os.Process, stream execStream) error {
			return stream.Send(stdoutOf("text"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			_, program := pseudoterminal(t)
			before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
			if err != nil {
				t.Fatal(err)
			}
			reader, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			_ = reader.Close()
			podctl := exec.CommandContext(t.Context(), os.Args[0], "--podexec-endpoint=unix://"+n.socket("podexecd"), "exec", "-it", "web", "--", "sh")
			podctl.Env = append(os.Environ(), asProgram+"=1")
			podctl.Stdin, podctl.Stdout, podctl.Stderr = program, writer, n.stderr
			started := make(chan struct{})
			n.busy(&busyPodexecd{
				pods: []*podexecv1.ObservedPod{runningPod(t, "default", "web")},
				exec: func(_ *podexecv1.ExecStart, stream execStream) error {
					<-started
					if now, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS); err != nil || cmp.Equal(before, now) {
						t.Errorf("the terminal isn't raw; error %v", err)
					}
					if err := end(podctl.Process, stream); err != nil {
						return err
					}
					<-stream.Context().Done()
					return nil
				},
			})
			if err := podctl.Start(); err != nil {
				t.Fatal(err)
			}
			close(started)
			err = podctl.Wait()
			_ = writer.Close()
			after, termErr := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
			if termErr != nil {
				t.Fatal(termErr)
			}
			if diff := cmp.Diff(before, after); podctl.ProcessState.ExitCode() != exitFailed || diff != "" {
				t.Errorf("%v, stderr %q, the terminal afterwards (-before +after):\n%s", err, n.stderr, diff)
			}
		})
	}
}

// As kubectl does, podctl prints which of several containers runs the command.
func TestExecDefaulted(t *testing.T) {
	n := newNode(t)
	n.busy(&busyPodexecd{
		pods: []*podexecv1.ObservedPod{runningPod(t, "default", "web")},
		exec: func(_ *podexecv1.ExecStart, stream execStream) error {
			if err := stream.Send(&podexecv1.ExecResponse{Message: &podexecv1.ExecResponse_Defaulted{
				Defaulted: &podexecv1.DefaultedContainer{Name: "app", Containers: []string{"app", "side"}},
			}}); err != nil {
				return err
			}
			if err := stream.Send(stdoutOf("hi")); err != nil {
				return err
			}
			return stream.Send(exitWith(3))
		},
	})
	if code := n.run(t.Context(), "exec", "web", "--", "sh"); code != 3 || n.stdout.String() != "hi" ||
		n.stderr.String() != "Defaulted container \"app\" out of: app, side\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, n.stdout, n.stderr)
	}
}
