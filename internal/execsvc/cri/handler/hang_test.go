package handler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-client/pkg"

	"github.com/podstream/podstream/internal/simruntime"
	"github.com/podstream/podstream/internal/simruntime/simnode"
)

// hanging is a runtime that never starts a command, as the CRI client reports it.
type hanging struct{}

func (hanging) ExecSync(ctx context.Context, _ string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	<-ctx.Done()
	return nil, nil, fmt.Errorf("%w: %q timed out after %s", cri.ErrCommandTimedOut, strings.Join(cmd, " "), timeout)
}

// late is a context whose deadline has passed, but which hasn't been ended yet.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

// atOnce is a runtime whose end of the connection has ended the request at its deadline.
type atOnce struct{}

func (atOnce) ExecSync(context.Context, string, []string, time.Duration) (stdout, stderr []byte, err error) {
	return nil, nil, cri.ErrCommandTimedOut
}

// execErrors makes a simulated runtime answer commands as a test says, through a socket and podexecd's client.
func execErrors(t *testing.T, answer func(ctx context.Context) error) Execer {
	t.Helper()
	node := simnode.New(t, simruntime.Config{})
	node.SetFault(func(ctx context.Context, method string) error {
		if method != "ExecSync" {
			return nil
		}
		return answer(ctx)
	})
	return node.CRI
}

// The runtime's answer distinguishes a command that took too long from a runtime that hangs.
func TestProbeCommandThroughTheClient(t *testing.T) {
	command := &v1.Probe{TimeoutSeconds: 1, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}}
	t.Run("takes too long", func(t *testing.T) {
		r := New(Config{Runtime: execErrors(t, func(context.Context) error {
			return status.Error(codes.DeadlineExceeded, "failed to exec in container: timeout 1s exceeded")
		})})
		outcome, output, err := r.Probe(t.Context(), Target{}, command)
		if outcome != Failure || !strings.Contains(output, "timed out after 1s") || err != nil {
			t.Errorf("outcome %v, output %q, error %v; want a failure", outcome, output, err)
		}
	})
	t.Run("the runtime hangs", func(t *testing.T) {
		r := New(Config{RequestTimeout: time.Millisecond, Runtime: execErrors(t, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})})
		_, output, err := r.Probe(t.Context(), Target{}, command)
		if !errors.Is(err, context.DeadlineExceeded) || output != "" {
			t.Errorf("output %q, error %v; want no verdict, as the runtime didn't answer", output, err)
		}
	})
}

// A command without an answer is the container's failure if the runtime answers other requests: containerd waits for
// all processes that hold the command's output, however long, after it has killed the command.
func TestProbeCommandWithoutAnAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		answers error
		failed  bool
	}{
		"the runtime answers":        {nil, true},
		"the runtime doesn't answer": {context.DeadlineExceeded, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			r := New(Config{Runtime: hanging{}, Answers: func(context.Context) error { asked++; return tc.answers }})
			outcome, _, err := r.probeExec(t.Context(), Target{}, &v1.ExecAction{Command: []string{"true"}}, time.Second)
			if outcome != Failure || (err == nil) != tc.failed || asked != 1 {
				t.Errorf("%s: outcome %v, error %v, asked %d times; want a failure: %v", name, outcome, err, asked, tc.failed)
			}
		})
	}
}

// The runtime's end of a connection may end a request at its deadline a moment before the own context ends: that is no
// answer.
func TestProbeCommandEndedAtTheDeadline(t *testing.T) {
	r := New(Config{Runtime: atOnce{}})
	_, output, err := r.probeExec(late{t.Context()}, Target{}, &v1.ExecAction{Command: []string{"true"}}, time.Second)
	if !errors.Is(err, context.DeadlineExceeded) || output != "" {
		t.Errorf("output %q, error %v; want no verdict", output, err)
	}
}

// A call that hangs while the runtime starts a probe's command ends soon, and the probe has no verdict.
func TestProbeCommandThatDoesNotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Config{Runtime: hanging{}})
		begun := time.Now()
		_, _, err := r.probeExec(t.Context(), Target{}, &v1.ExecAction{Command: []string{"true"}}, time.Second)
		if took := time.Since(begun); err == nil || took != time.Second+toBegin {
			t.Errorf("after %v: %v; want an error after %v", took, err, time.Second+toBegin)
		}
	})
}
