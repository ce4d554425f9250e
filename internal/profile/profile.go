package profile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/pprof"
	"runtime/trace"
	"sync"
	"time"
)

const (
	// CPU is the name of the CPU profile. It and the trace last for a time; the others show the present state.
	CPU = "profile"
	// Trace is the name of the execution trace.
	Trace = "trace"
	// MaxDuration is the longest time of a CPU profile or an execution trace.
	MaxDuration = time.Minute
	// DefaultDuration is that of a zero duration.
	DefaultDuration = 30 * time.Second
	// maxBytes bounds a profile. An execution trace of a busy daemon has some megabytes for each second.
	maxBytes = 256 << 20
)

// Errors of Write.
var (
	// ErrUnknown: there is no profile of that name.
	ErrUnknown = errors.New("there is no such profile; want profile (CPU), trace, heap, allocs, goroutine, threadcreate, block or mutex")
	// ErrDuration: the duration is negative or too long.
	ErrDuration = fmt.Errorf("want a duration up to %v", MaxDuration)
	// ErrBusy: another profile is being written.
	ErrBusy = errors.New("another profile is being written; try again later")
	errSize = fmt.Errorf("the profile has more than %d bytes", maxBytes)
)

// running is held while a profile is written.
var running sync.Mutex

// Write writes a profile. A CPU profile or trace ends early if ctx ends; its error is then that of ctx.
func Write(ctx context.Context, w io.Writer, name string, d time.Duration) error {
	if d < 0 || d > MaxDuration {
		return ErrDuration
	}
	if d == 0 {
		d = DefaultDuration
	}
	timed := name == CPU || name == Trace
	of := pprof.Lookup(name)
	if !timed && of == nil {
		return ErrUnknown
	}
	if !running.TryLock() {
		return ErrBusy
	}
	defer running.Unlock()
	bounded := &boundedWriter{w: w, left: maxBytes}
	if !timed {
		return of.WriteTo(bounded, 0)
	}
	start, stop := pprof.StartCPUProfile, pprof.StopCPUProfile
	if name == Trace {
		start, stop = trace.Start, trace.Stop
	}
	if err := start(bounded); err != nil {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	var err error
	select {
	case <-timer.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	stop()
	return errors.Join(err, bounded.failed)
}

// boundedWriter fails after some bytes, and keeps the first error: a profiler ignores it.
type boundedWriter struct {
	w      io.Writer
	left   int
	failed error
}

func (b *boundedWriter) Write(p []byte) (int, error) {
	if b.failed != nil {
		return 0, b.failed
	}
	if b.left -= len(p); b.left < 0 {
		b.failed = errSize
		return 0, b.failed
	}
	n, err := b.w.Write(p)
	b.failed = err
	return n, err
}
