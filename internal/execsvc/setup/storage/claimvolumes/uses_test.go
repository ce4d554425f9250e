package claimvolumes

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstream/podstream/internal/access"
)

// TestExportExcludesChanges: a volume that is exported is neither replaced nor removed, and one that is replaced isn't exported: the
// archive would lack the files that are gone. Exports don't exclude each other, nor do other volumes.
func TestExportExcludesChanges(t *testing.T) {
	n := newNode(t)
	other := data
	other.Name = "other"
	export := func(out io.Writer) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := n.Export(access.NewContext(t.Context(), access.Caller{Identity: "uid:7"}), data, Limits{}, out)
			done <- err
		}()
		return done
	}
	replace := func(in io.ReadCloser) error {
		_, err := n.Import(t.Context(), data, limits, true, in)
		return err
	}
	whole := func() io.ReadCloser { return io.NopCloser(bytes.NewReader(archive(t, "new"))) }
	refused := func(what string, err error, why string) {
		t.Helper()
		if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), why) || n.content() != "old" {
			t.Errorf("%s: %v; want that it %s; the volume has %s", what, err, why, n.content())
		}
	}

	out := gated{begun: make(chan struct{}), open: make(chan struct{})}
	done := export(out)
	<-out.begun
	refused("an import", replace(whole()), "is being exported since "+time.Now().Format("2006-"))
	_, err := n.Remove(t.Context(), data)
	refused("a removal", err, ` by "uid:7": `)
	if _, err := n.Export(t.Context(), data, Limits{}, io.Discard); err != nil {
		t.Errorf("another export: %v", err)
	}
	if release, err := n.uses.change(other, "is being removed"); err != nil {
		t.Errorf("the removal of another volume: %v", err)
	} else {
		release()
	}
	close(out.open)
	if err := <-done; err != nil {
		t.Fatal(err)
	}

	in := gated{begun: make(chan struct{}), open: make(chan struct{}), from: whole()}
	imported := make(chan error, 1)
	go func() { imported <- replace(in) }()
	<-in.begun
	refused("an export", <-export(io.Discard), "is being imported")
	close(in.open)
	if err := <-imported; err != nil || n.content() != "new" {
		t.Fatalf("%v; the volume has %s", err, n.content())
	}
	if err := <-export(io.Discard); err != nil {
		t.Errorf("an export afterwards: %v", err)
	}
	for _, step := range []string{"hold", "reserve"} {
		n.before[step] = errPlanted
		if err := replace(whole()); !errors.Is(err, errPlanted) {
			t.Errorf("an import, if the volume can't be had for it (%s): %v", step, err)
		}
		delete(n.before, step)
		if err := <-export(io.Discard); err != nil {
			t.Errorf("an export after it: %v", err)
		}
	}
	n.free()
}

// TestSlowReader: a reader that takes a piece from time to time keeps the volume for a bounded time only, and one that is slow but goes
// on keeps it.
func TestSlowReader(t *testing.T) {
	for pause, stalls := range map[time.Duration]bool{idleLimit - time.Second: true, 10 * time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			v := Volumes{idle: idleLimit}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			began := time.Now()
			err := v.relay(slow{ctx, pause}, io.LimitReader(zeros{}, 4*idleBytes), cancel)
			if took := time.Since(began); stalls != errors.Is(err, ErrStalled) || stalls && took > idleLimit || !stalls && err != nil {
				t.Errorf("with pauses of %s: %v after %s", pause, err, took)
			}
		})
	}
}

// slow takes a while for each piece.
type slow struct {
	ctx   context.Context
	pause time.Duration
}

func (s slow) Write(p []byte) (int, error) {
	select {
	case <-s.ctx.Done():
		return 0, context.Cause(s.ctx)
	case <-time.After(s.pause):
		return len(p), nil
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// gated says when the first bytes are asked of it, and waits until it is opened.
type gated struct {
	begun, open chan struct{}
	from        io.ReadCloser
}

func (g gated) wait() {
	select {
	case <-g.open:
		return
	default:
	}
	close(g.begun)
	<-g.open
}

func (g gated) Write(p []byte) (int, error) {
	g.wait()
	return len(p), nil
}

func (g gated) Read(p []byte) (int, error) {
	g.wait()
	return g.from.Read(p)
}

func (g gated) Close() error { return nil }
