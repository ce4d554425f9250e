package simruntime

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/exec"
)

// ExecSync runs its command in the container. The container's files stay from one call to the next.
func TestExecSync(t *testing.T) {
	h := start(t, Config{})
	id := h.sample("c")
	for _, test := range []struct {
		cmd            []string
		stdout, stderr string
		code           int
	}{
		{cmd: []string{"/sample", "exit", "0"}},
		{cmd: []string{"/sample", "exit", "9"}, code: 9},
		{cmd: []string{"/sample", "cat", "/ready"}, stderr: "sample: open /ready: no such file or directory\n", code: 1},
		{cmd: []string{"/sample", "write", "/ready", "yes"}},
		{cmd: []string{"/sample", "cat", "/ready"}, stdout: "yes\n"},
		{cmd: []string{"/sample", "seq", "append", "/log", "a", ";", "append", "/log", "b", ";", "cat", "/log", ";", "exit", "4"}, stdout: "a\nb\n", code: 4},
		{cmd: []string{"/sample", "fail-once", "/once", "5"}, code: 5},
		{cmd: []string{"/sample", "fail-once", "/once", "5"}},
		{cmd: []string{"/sample", "exists", "/once"}},
		{cmd: []string{"/sample", "remove", "/once"}},
		{cmd: []string{"/sample", "exists", "/once"}, stderr: "sample: stat /once: no such file or directory\n", code: 1},
		{cmd: []string{"/sample", "dance"}, stderr: "sample: unknown command \"dance\"\n", code: 2},
	} {
		stdout, stderr, err := h.runtime.ExecSync(t.Context(), id, test.cmd, time.Minute)
		code := 0
		if exit := (exec.CodeExitError{}); errors.As(err, &exit) {
			code, err = exit.Code, nil
		}
		if err != nil || code != test.code || string(stdout) != test.stdout || string(stderr) != test.stderr {
			t.Errorf("%q: code %d, stdout %q, stderr %q, %v; want %+v", test.cmd, code, stdout, stderr, err, test)
		}
	}
}

func TestExecSyncErrors(t *testing.T) {
	h := start(t, Config{})
	sandbox, pod := h.pod("p")
	id := h.run(sandbox, pod, containerConfig("c"))
	_, _, err := h.runtime.ExecSync(t.Context(), id, []string{"sh"}, 0)
	if err == nil || !strings.Contains(err.Error(), `exec: "sh": executable file not found in $PATH: unknown`) {
		t.Errorf("other program: %v", err)
	}
	fresh := h.create(sandbox, pod, containerConfig("fresh"))
	if _, _, err := h.runtime.ExecSync(t.Context(), fresh, []string{"/sample", "exit", "0"}, 0); err == nil || !strings.Contains(err.Error(), "CONTAINER_CREATED") {
		t.Errorf("in a created container: %v", err)
	}
	if _, _, err := h.runtime.ExecSync(t.Context(), "unknown", []string{"/sample", "exit", "0"}, 0); status.Code(err) != codes.NotFound {
		t.Errorf("in an unknown container: %v", err)
	}
}

// A command that exceeds the timeout returns DeadlineExceeded at the timeout. A faster one doesn't.
func TestExecSyncTimeout(t *testing.T) {
	h := start(t, Config{})
	id := h.sample("c")
	for _, test := range []struct {
		name    string
		cmd     []string
		timeout time.Duration
		waits   time.Duration
		code    codes.Code
	}{
		{"never ends", []string{"/sample", "sleep"}, 3 * time.Second, 3 * time.Second, codes.DeadlineExceeded},
		{"ends too late", []string{"/sample", "sleep", "5"}, 4 * time.Second, 4 * time.Second, codes.DeadlineExceeded},
		{"ends in time", []string{"/sample", "sleep", "6"}, 7 * time.Second, 6 * time.Second, codes.OK},
	} {
		t.Run(test.name, func(t *testing.T) {
			done := make(chan error, 1)
			go func() {
				_, _, err := h.runtime.ExecSync(t.Context(), id, test.cmd, test.timeout)
				done <- err
			}()
			h.waitTimer(test.waits)
			h.clock.Step(test.waits)
			// The client wraps a timeout in another error.
			if err := <-done; (err == nil) != (test.code == codes.OK) || err != nil && !strings.Contains(err.Error(), "timed out") {
				t.Errorf("ExecSync: %v, want %v", err, test.code)
			}
		})
	}
}

// The timeout is for all commands of a sequence, and their output is one output.
func TestExecSyncSequence(t *testing.T) {
	h := start(t, Config{})
	id := h.sample("c")
	for _, test := range []struct {
		last   string
		stdout string
		err    string
	}{
		{last: "2", stdout: "one\ntwo\n"},
		{last: "3", err: "timed out"},
	} {
		type result struct {
			stdout []byte
			err    error
		}
		done := make(chan result, 1)
		go func() {
			stdout, _, err := h.runtime.ExecSync(t.Context(), id, []string{"/sample", "seq", "write", "/x", "one\n", ";", "cat", "/x", ";",
				"sleep", "3", ";", "write", "/x", "two\n", ";", "cat", "/x", ";", "sleep", test.last}, 5*time.Second)
			done <- result{stdout, err}
		}()
		h.waitTimer(3 * time.Second)
		h.clock.Step(3 * time.Second)
		h.waitTimer(2 * time.Second) // the rest of the timeout, or the command's duration
		h.clock.Step(2 * time.Second)
		got := <-done
		if string(got.stdout) != test.stdout || (got.err == nil) != (test.err == "") || got.err != nil && !strings.Contains(got.err.Error(), test.err) {
			t.Errorf("the last takes %s s: %q, %v", test.last, got.stdout, got.err)
		}
	}
}

// A command ends when its container ends.
func TestExecSyncEndsWithTheContainer(t *testing.T) {
	h := start(t, Config{})
	id := h.sample("c")
	done := make(chan error, 1)
	go func() {
		_, _, err := h.runtime.ExecSync(t.Context(), id, []string{"/sample", "sleep", "1h"}, 0)
		done <- err
	}()
	h.waitTimer(time.Hour)
	if err := h.ExitContainer(id, 1); err != nil {
		t.Fatal(err)
	}
	if exit := (exec.CodeExitError{}); !errors.As(<-done, &exit) || exit.Code != 137 {
		t.Errorf("ExecSync: %v", exit)
	}
}

// Calls that aren't simulated return Unimplemented with a reason.
func TestStreamingIsUnimplemented(t *testing.T) {
	h := start(t, Config{})
	_, execErr := h.runtime.Exec(t.Context(), &runtimeapi.ExecRequest{ContainerId: "c", Cmd: []string{"sh"}, Stdout: true})
	_, attachErr := h.runtime.Attach(t.Context(), &runtimeapi.AttachRequest{ContainerId: "c", Stdout: true})
	_, forwardErr := h.runtime.PortForward(t.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: "p"})
	for name, err := range map[string]error{"Exec": execErr, "Attach": attachErr, "PortForward": forwardErr} {
		if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "the simulated runtime has no") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
