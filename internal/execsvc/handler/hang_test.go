package handler

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

// hanging is a runtime that never begins a command.
type hanging struct{}

func (hanging) ExecSync(ctx context.Context, _ string, _ []string, _ time.Duration) (stdout, stderr []byte, err error) {
	<-ctx.Done()
	return nil, nil, ctx.Err()
}

// A runtime that hangs in beginning a probe's command is let off before long, and the probe has no verdict.
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
