package kmsg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
)

// Device is the kernel's log.
const Device = "/dev/kmsg"

const (
	// recordSize is more than the longest record that the kernel has, 8 KiB.
	recordSize = 16 << 10
	// recordsPerSecond and recordsAtOnce bound the work for a flood of records.
	recordsPerSecond, recordsAtOnce = 1000, 10000
	// reopenPeriod is the pause after the log couldn't be opened or read. lostPeriod is the least time between two
	// messages about lost records.
	reopenPeriod, lostPeriod = time.Minute, time.Hour
)

// Config configures a Watcher.
type Config struct {
	// OOM receives each report of the OOM killer, in Run's goroutine. It must not block.
	OOM func(OOM)
	// Logger receives failures when they start and end. Nil discards them.
	Logger *slog.Logger
}

// Watcher watches the kernel's log.
type Watcher struct {
	cfg Config
	log *slog.Logger
	// open opens the log. Reads of it return one record each.
	open  func() (io.ReadSeekCloser, error)
	limit *rate.Limiter

	// The rest belongs to Run's goroutine: whether the last attempt failed, and when lost records were last reported.
	failed bool
	lostAt time.Time
}

// New returns a Watcher. It opens nothing yet.
func New(cfg Config) *Watcher {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Watcher{
		cfg: cfg, log: cfg.Logger, limit: rate.NewLimiter(recordsPerSecond, recordsAtOnce),
		open: func() (io.ReadSeekCloser, error) { return open(Device) },
	}
}

// open opens the log. A container may have something else at that path, such as a FIFO, which is not waited for.
func open(path string) (io.ReadSeekCloser, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
}

// Run watches the log until ctx ends. If the log can't be opened, as in a container without the device, Run logs that
// once and tries again every minute.
func (w *Watcher) Run(ctx context.Context) {
	for ctx.Err() == nil {
		err := w.watch(ctx)
		if ctx.Err() != nil {
			return
		}
		if !w.failed {
			w.failed = true
			w.log.Warn("the kernel's log can't be read; system OOMs are not reported", "error", err, "every", reopenPeriod)
		}
		timer := time.NewTimer(reopenPeriod)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// watch reads the log from its end until ctx ends or reading fails.
func (w *Watcher) watch(ctx context.Context) error {
	log, err := w.open()
	if err != nil {
		return err
	}
	// Closing the log ends a Read that waits for a record.
	stop := context.AfterFunc(ctx, func() { _ = log.Close() })
	defer func() {
		if stop() {
			_ = log.Close()
		}
	}()
	if _, err := log.Seek(0, io.SeekEnd); err != nil {
		return fmt.Errorf("seek the end: %w", err)
	}
	var find scanner
	buffer := make([]byte, recordSize)
	for {
		n, err := log.Read(buffer)
		// Not before: /dev/null in the log's place can be opened, and has no records.
		if w.failed && (err == nil || errors.Is(err, unix.EPIPE)) {
			w.failed = false
			w.log.Info("the kernel's log can be read again")
		}
		switch {
		case errors.Is(err, unix.EPIPE):
			// The next Read returns the oldest record that is still there.
			w.lost()
		case err != nil:
			return fmt.Errorf("read a record: %w", err)
		default:
			if text, kernel := message(string(buffer[:n])); kernel {
				if oom, ends := find.next(strings.ToValidUTF8(text, "?")); ends {
					w.cfg.OOM(oom)
				}
			}
		}
		if err := w.limit.Wait(ctx); err != nil {
			return err
		}
	}
}

// lost logs, at most once an hour, that records were overwritten before they were read.
func (w *Watcher) lost() {
	if now := time.Now(); w.lostAt.IsZero() || now.Sub(w.lostAt) >= lostPeriod {
		w.lostAt = now
		w.log.Warn("messages of the kernel were overwritten before they were read; a system OOM among them is not reported", "file", Device)
	}
}
