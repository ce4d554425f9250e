package claimvolumes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/tree"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/directory"
)

var (
	errIdle = fmt.Errorf("%w: less than %d KiB in %s", ErrStalled, idleBytes>>10, idleLimit)
	errLong = fmt.Errorf("%w: more than %s", ErrStalled, archiveLimit)
)

// Limits bound an archive.
type Limits struct{ Bytes, Entries int64 }

// Export writes the volume as an archive to out. It isn't complete after an error; then a Write to out may go on, which the caller
// ends. Pods may use the volume, which is neither removed nor replaced meanwhile.
func (v *Volumes) Export(ctx context.Context, c directory.Claim, limits Limits, out io.Writer) (tree.Moved, error) {
	if err := c.Check(); err != nil {
		return tree.Moved{}, fmt.Errorf("%w: %w", ErrName, err)
	}
	release, err := v.uses.export(c, by(ctx))
	if err != nil {
		return tree.Moved{}, err
	}
	defer release()
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

// by returns the caller of a request, for messages.
func by(ctx context.Context) string {
	if c, ok := access.FromContext(ctx); ok {
		return fmt.Sprintf("%.100q", c.Identity)
	}
	return "podexecd"
}

// limited returns a context for an archive.
func limited(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, stop := context.WithTimeoutCause(ctx, archiveLimit, errLong)
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, func(cause error) { cancel(cause); stop() }
}

// Import makes the archive that in has the volume. Unless in ends with io.EOF, nothing changes. After an error nothing has
// changed, but for ErrUnknown. Import closes in. Run removes the content that was replaced.
func (v *Volumes) Import(ctx context.Context, c directory.Claim, limits Limits, replace bool, in io.ReadCloser) (_ tree.Moved, err error) {
	defer in.Close()
	release, err := v.hold(c, "is being imported")
	if err != nil {
		return tree.Moved{}, err
	}
	keep := false
	defer func() { release(keep, err) }()
	limitedCtx, cancel := limited(ctx)
	defer cancel(nil)
	from, to, err := os.Pipe()
	if err != nil {
		return tree.Moved{}, err
	}
	as := v.start + rand.Text()
	copied := make(chan struct{})
	var whole atomic.Bool
	go func() {
		defer close(copied)
		v.send(to, in, &whole, cancel)
	}()
	answer, err := v.cfg.Helpers.Stream(limitedCtx, v.cfg.Root, foreign.Job{Import: &tree.Import{
		Root: v.cfg.Root, Claim: c.String(), As: as, Replace: replace, Exists: v.cfg.Bindings.HasMade(c), MaxBytes: limits.Bytes, MaxEntries: limits.Entries,
	}}, from)
	cause := context.Cause(limitedCtx)
	_ = in.Close()
	_ = to.Close() // A helper that hangs doesn't read.
	<-copied
	if err == nil {
		return v.imported(answer.Moved, as), nil
	}
	if keep, err = v.unimported(ctx, c, as, err, whole.Load()); keep || errors.Is(err, ErrUnknown) || cause == nil {
		return tree.Moved{}, err
	}
	// What ended the archive explains more than that the helper got only a part of it.
	return tree.Moved{}, fmt.Errorf("read the archive of volume %s: %w", c, cause)
}

// imported has Run remove the content that was replaced, which may take longer than the caller waits.
func (v *Volumes) imported(moved tree.Moved, as string) tree.Moved {
	select {
	case v.replaced <- as:
	default:
		moved.Left = "the content that was replaced: too many others are being removed"
	}
	return moved
}

// unimported removes what a failed import has left, and explains its error. whole reports whether the helper has got the whole
// archive: without that it doesn't touch the volume. keep is set if no pod may get the volume.
func (v *Volumes) unimported(ctx context.Context, c directory.Claim, as string, err error, whole bool) (keep bool, _ error) {
	switch {
	case foreign.IsReason(err, foreign.Unsynced):
		return true, fmt.Errorf("volume %s: %w: %w; no pod gets it until podexecd starts again, and neither content is removed; "+
			"the other one is %s.unsynced in .incomplete", c, ErrUnknown, err, as)
	case unended(err):
		return true, v.explain(c, err)
	}
	// A helper that was ended could remove nothing, and may have been ended before it could answer.
	_, answered := errors.AsType[*foreign.Error](err)
	unknown := whole && !answered && !foreign.IsUnchanged(err)
	dropErr := v.drop(context.WithoutCancel(ctx), as)
	switch {
	case !unknown:
		return false, v.explain(c, err)
	case dropErr != nil: // Without the sync of drop, a crash of the machine may change which content it is.
		return true, fmt.Errorf("volume %s: %w: %w; no pod gets it until podexecd starts again: %w", c, ErrUnknown, err, dropErr)
	}
	return false, fmt.Errorf("volume %s: %w: %w", c, ErrUnknown, err)
}

// send sends an archive to a helper, and closes to. It sets whole before the end of the archive is sent.
func (v *Volumes) send(to *os.File, in io.Reader, whole *atomic.Bool, cancel context.CancelCauseFunc) {
	frames := tree.Frames{To: to}
	err := v.relay(frames, in, cancel)
	if err == nil {
		whole.Store(true)
		err = frames.End() // Without it, the helper imports nothing.
	}
	if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, os.ErrClosed) { // The helper that doesn't read any more answers why.
		cancel(err)
	}
	_ = to.Close()
}

// relay copies until the end of in. If that is too slow it cancels: meanwhile the volume is kept from other requests.
func (v *Volumes) relay(out io.Writer, in io.Reader, cancel context.CancelCauseFunc) error {
	idle := time.AfterFunc(v.idle, func() { cancel(errIdle) })
	defer idle.Stop()
	buffer := make([]byte, 64<<10)
	moved := 0
	for {
		n, err := in.Read(buffer)
		if n > 0 {
			if _, err := out.Write(buffer[:n]); err != nil {
				return err
			}
		}
		if moved += n; moved >= idleBytes {
			moved = 0
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
