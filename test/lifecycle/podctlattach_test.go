package lifecycle

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// podctl attach passes input to the main process of a container, and its end, which ends that process with stdinOnce.
func TestPodctlAttach(t *testing.T) {
	on(t, containerds, func(t *testing.T, b *bench) {
		p := b.run(t, `
restartPolicy: Never
containers: [{name: main, stdin: true, stdinOnce: true, args: [stdin]}]`)
		p.awaitReady()
		attached := b.startPodctl(t, "attach", "-i", p.name)
		attached.say("hello container")
		check(t, attached.stdin.Close())
		if code := attached.end(nil); code != 0 || !strings.HasPrefix(attached.stderr.String(), "If you don't see a command prompt, try pressing enter.\n") {
			t.Errorf("exit code %d, stderr %q", code, attached.stderr)
		}
		p.awaitPhase(v1.PodSucceeded)
	})
}

// A client that goes away, in any way, doesn't end the container, and another one can attach.
func TestPodctlDetach(t *testing.T) {
	on(t, containerds, func(t *testing.T, b *bench) {
		p := b.run(t, `containers: [{name: main, stdin: true, args: [stdin]}]`)
		before := p.awaitReady()
		for signal, want := range map[os.Signal]int{syscall.SIGKILL: -1, syscall.SIGINT: 0, syscall.SIGHUP: -1} {
			attached := b.startPodctl(t, "attach", "-i", p.name)
			attached.say(fmt.Sprint("until ", signal))
			if code := attached.end(signal); code != want {
				t.Errorf("%v: exit code %d, stderr %q", signal, code, attached.stderr)
			}
		}
		attached := b.startPodctl(t, "attach", "-i", p.name)
		attached.say("once more")
		check(t, attached.stdin.Close()) // Without stdinOnce this detaches, too.
		if code := attached.end(nil); code != 0 {
			t.Errorf("exit code %d, stderr %q", code, attached.stderr)
		}
		if now := p.now(); now.of("main").ContainerID != before.of("main").ContainerID || !now.runs("main") {
			t.Errorf("the container was %+v, and is %+v", before.of("main"), now.of("main"))
		}
	})
}

// With stdinOnce, a client with -i that goes away ends the standard input for good, and so a process that reads it. With a
// terminal too, or for a client without -i, it doesn't.
func TestPodctlDetachOnce(t *testing.T) {
	on(t, containerds, func(t *testing.T, b *bench) {
		p := b.run(t, `
restartPolicy: Never
containers:
- {name: once, stdin: true, stdinOnce: true, args: [stdin]}
- {name: terminal, stdin: true, stdinOnce: true, tty: true, args: [stdin]}`)
		p.awaitNow("both run", func(s *state) bool { return s.runs("once") && s.runs("terminal") })
		for _, name := range []string{"first", "second"} {
			attached := b.startPodctl(t, "attach", "-i", "-c", "terminal", p.name)
			attached.say(name)
			attached.end(syscall.SIGKILL)
		}
		watching := b.startPodctl(t, "attach", "-c", "once", p.name)
		eventually(t, "podctl is attached", func() error {
			if !strings.Contains(watching.stderr.String(), "pressing enter") {
				return errors.New("it isn't")
			}
			return nil
		})
		watching.end(syscall.SIGKILL)
		attached := b.startPodctl(t, "attach", "-i", "-c", "once", p.name)
		attached.say("once")
		if now := p.now(); !now.runs("once") || !now.runs("terminal") {
			t.Errorf("before the end of the client of once: %+v", now)
		}
		attached.end(syscall.SIGKILL)
		after := p.awaitNow("once has ended", func(s *state) bool { return !s.runs("once") })
		if !after.runs("terminal") {
			t.Error("the container with a terminal has ended, too")
		}
	})
}

// A container's terminal gets the caller's sizes.
func TestAttachTerminal(t *testing.T) {
	on(t, containerds, func(t *testing.T, b *bench) {
		p := b.run(t, `
restartPolicy: Never
containers: [{name: main, stdin: true, tty: true, args: [tty, 100x40]}]`)
		p.awaitNow("main runs", func(s *state) bool { return s.runs("main") })
		stream, err := b.Exec.Attach(t.Context())
		check(t, err)
		send := func(m *podexecv1.AttachRequest) {
			if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
		}
		send(&podexecv1.AttachRequest{Message: &podexecv1.AttachRequest_Start{Start: &podexecv1.AttachStart{
			Ref: &podconfigv1.PodRef{Name: p.name + "-" + b.Name}, Stdin: true, Size: &podexecv1.TerminalSize{Width: 80, Height: 24},
		}}})
		text, opened := "", (*podexecv1.AttachOpened)(nil)
		for {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			check(t, err)
			if m.GetOpened() != nil {
				opened = m.GetOpened()
				send(&podexecv1.AttachRequest{Message: &podexecv1.AttachRequest_Resize{Resize: &podexecv1.TerminalSize{Width: 100, Height: 40}}})
			}
			text += string(m.GetStdout())
		}
		if !opened.GetTty() || !opened.GetStdin() {
			t.Errorf("attached to %v; want a terminal with input", opened)
		}
		p.awaitPhase(v1.PodSucceeded) // It ends when the terminal has that size.
		t.Logf("shown: %q", text)
	})
}
