package csivolume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// TestOutcomes: what an error means for the volume is decided by the driver's answer, or by its absence.
func TestOutcomes(t *testing.T) {
	n := newBench(t, canStage, canExpand)
	_, s, p := n.resolved(pod())
	calls := map[string]func(context.Context) error{
		"stage": func(ctx context.Context) error { return n.Stage(ctx, s) }, "publish": func(ctx context.Context) error { return n.Publish(ctx, p) },
		"unpublish": func(ctx context.Context) error { return n.Unpublish(ctx, p) }, "unstage": func(ctx context.Context) error { return n.Unstage(ctx, s) },
		"expand": func(ctx context.Context) error { return n.Expand(ctx, p, ExpandArgs(1)) },
	}
	check := func(err error, want storage.Outcome, what string) {
		t.Helper()
		if got := storage.OutcomeOf(err); err == nil || got != want {
			t.Errorf("%s: %v has the outcome %d; want %d", what, err, got, want)
		}
	}
	for name, call := range calls {
		for code, want := range map[codes.Code]storage.Outcome{
			codes.InvalidArgument: storage.Final, codes.NotFound: storage.Final, codes.Internal: storage.Final, codes.FailedPrecondition: storage.Final,
			codes.Aborted: storage.InProgress, codes.DeadlineExceeded: storage.Uncertain, codes.Unavailable: storage.Uncertain,
			codes.AlreadyExists: storage.Uncertain, codes.ResourceExhausted: storage.Uncertain,
		} {
			n.driver.fails(status.Error(code, "broken"))
			err := call(t.Context())
			check(err, want, name+": "+code.String())
			if err != nil && !strings.HasSuffix(err.Error(), "rpc error: code = "+code.String()+" desc = broken") {
				t.Errorf("%s: the text is %q", name, err)
			}
		}
		// The caller gives up: the driver still executes the call.
		entered, hang := make(chan struct{}), make(chan struct{})
		n.driver.does(func(proto.Message) error { close(entered); <-hang; return nil })
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-entered; cancel() }()
		check(call(ctx), storage.Unanswered, name+": given up")
		close(hang)
	}
	n.driver.taken()
	n.driver.stop()
	for name, call := range calls {
		check(call(t.Context()), storage.NotSent, name+": no socket")
	}
	n.isNotSent(n.Stage(t.Context(), s))
}

// TestFinalLeavesNothing: package storage forgets a volume that the driver says it didn't make, so nothing may be left. It may
// not forget one of which that isn't certain.
func TestFinalLeavesNothing(t *testing.T) {
	n := newBench(t, canStage)
	_, s, p := n.resolved(pod())
	n.driver.fails(status.Error(codes.Internal, "broken"))
	if n.Stage(t.Context(), s) == nil || n.Publish(t.Context(), p) == nil {
		t.Fatal("it succeeded")
	}
	if left, err := os.ReadDir(n.dir()); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	isGone(t, filepath.Dir(n.staging()))
	n.driver.fails(status.Error(codes.Aborted, "busy"))
	if n.Stage(t.Context(), s) == nil || n.Publish(t.Context(), p) == nil {
		t.Fatal("it succeeded")
	}
	data(t, n.dir())
	data(t, filepath.Dir(n.staging()))
}

// TestUnsupported: a driver isn't called for what it can't do.
func TestUnsupported(t *testing.T) {
	n := newBench(t)
	_, _, p := n.resolved(pod())
	if err := n.Expand(t.Context(), p, ExpandArgs(1)); !errors.Is(err, storage.ErrNoExpand) || storage.OutcomeOf(err) != storage.NotSent {
		t.Error(err)
	}
	if _, err := n.Stats(t.Context(), p); !errors.Is(err, storage.ErrNoStats) {
		t.Error(err)
	}
	if all := n.driver.taken(); len(all) > 0 {
		t.Errorf("calls: %v", all)
	}
}
