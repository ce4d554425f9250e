package claimvolumes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/tree"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/directory"
)

var (
	errIdle = fmt.Errorf("%w: it has made no progress for %s", ErrStalled, idleLimit)
	errLong = fmt.Errorf("%w: more than %s", ErrStalled, archiveLimit)
)

// Limits bound an archive.
type Limits struct{ Bytes, Entries int64 }

// Export writes the volume as an archive to out. It isn't complete after an error; then a Write to out may go on, which the caller
// ends. Pods may use the volume.
func (v *Volumes) Export(ctx context.Context, c directory.Claim, limits Limits, out io.Writer) (tree.Moved, error) {
	if err := c.Check(); err != nil {
		return tree.Moved{}, fmt.Errorf("%w: %w", ErrName, err)
	}
	ctx, cancel := limited(ctx)
	defer cancel(nil)
	from, to, err := os.Pipe()
	if err != nil {
		return tree.Moved{}, err
	}
	defer from.Close()
	copied := make(chan error, 1)
	go func() {
		err := v.relay(out, from, cancel)
		if err != nil {
			cancel(err)
		}
		copied <- err
	}()
	answer, err := v.cfg.Helpers.Stream(ctx, v.cfg.Root, foreign.Job{Export: &tree.Export{Root: v.cfg.Root, Claim: c.String(), MaxBytes: limits.Bytes}}, to)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return tree.Moved{}, fmt.Errorf("send the archive of volume %s: %w", c, cause)
		}
		return tree.Moved{}, v.explain(c, err)
	}
	select {
	case err = <-copied:
	case <-ctx.Done(): // The receiver doesn't read.
		err = context.Cause(ctx)
	}
	if err != nil {
		return tree.Moved{}, fmt.Errorf("send the archive of volume %s: %w", c, err)
	}
	return answer.Moved, nil
}

// limited returns a context for an archive.
func limited(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, stop := context.WithTimeoutCause(ctx, archiveLimit, errLong)
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, func(cause error) { cancel(cause); stop() }
}

// Import makes the archive that in has the volume. Unless in ends with io.EOF, nothing changes. Import closes in.
func (v *Volumes) Import(ctx context.Context, c directory.Claim, limits Limits, replace bool, in io.ReadCloser) (tree.Moved, error) {
	defer in.Close()
	release, err := v.hold(c, "is being imported")
	if err != nil {
		return tree.Moved{}, err
	}
	defer func() { release(err) }()
	limitedCtx, cancel := limited(ctx)
	defer cancel(nil)
	from, to, err := os.Pipe()
	if err != nil {
		return tree.Moved{}, err
	}
	as := v.start + rand.Text()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		v.send(to, in, cancel)
	}()
	answer, err := v.cfg.Helpers.Stream(limitedCtx, v.cfg.Root, foreign.Job{Import: &tree.Import{
		Root: v.cfg.Root, Claim: c.String(), As: as, Replace: replace, MaxBytes: limits.Bytes, MaxEntries: limits.Entries,
	}}, from)
	cause := context.Cause(limitedCtx)
	_ = in.Close()
	_ = to.Close() // A helper that hangs doesn't read.
	<-copied
	if err == nil {
		return answer.Moved, nil
	}
	if !foreign.IsReason(err, foreign.Unsynced) {
		// The helper may have been ended before it could remove what it had written.
		v.drop(context.WithoutCancel(ctx), as)
	}
	// What ended the archive explains more than that the helper got only a part of it.
	if cause == nil || unended(err) || foreign.IsReason(err, foreign.Unsynced) {
		return tree.Moved{}, v.explain(c, err)
	}
	return tree.Moved{}, fmt.Errorf("read the archive of volume %s: %w", c, cause)
}

// send sends an archive to a helper, and closes to.
func (v *Volumes) send(to *os.File, in io.Reader, cancel context.CancelCauseFunc) {
	frames := tree.Frames{To: to}
	err := v.relay(frames, in, cancel)
	if err == nil {
		err = frames.End() // Without it, the helper imports nothing.
	}
	if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, os.ErrClosed) { // The helper that doesn't read any more answers why.
		cancel(err)
	}
	_ = to.Close()
}

// drop removes what a helper has left of an import.
func (v *Volumes) drop(ctx context.Context, as string) {
	ctx, cancel := context.WithTimeout(ctx, removeLimit)
	defer cancel()
	if _, err := v.cfg.Helpers.Do(ctx, v.cfg.Root, foreign.Job{Sweep: &tree.Sweep{Root: v.cfg.Root, Only: as}}); err != nil {
		v.cfg.Log.Warn("a part of an import is left; the next start of podexecd removes it", "dir", v.cfg.Root, "error", err)
	}
}

// relay copies until the end of in. Without progress it cancels.
func (v *Volumes) relay(out io.Writer, in io.Reader, cancel context.CancelCauseFunc) error {
	idle := time.AfterFunc(v.idle, func() { cancel(errIdle) })
	defer idle.Stop()
	buffer := make([]byte, 64<<10)
	for {
		n, err := in.Read(buffer)
		idle.Reset(v.idle)
		if n > 0 {
			if _, err := out.Write(buffer[:n]); err != nil {
				return err
			}
			idle.Reset(v.idle)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
