package kmsg

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// fakeLog is a log that has records of which each Read returns one, or an error instead. A Read of an open log without
// more records waits.
type fakeLog struct {
	t       *testing.T
	records chan any
	closed  chan struct{}
	sought  bool
}

func newLog(t *testing.T, records ...any) *fakeLog {
	l := &fakeLog{t: t, records: make(chan any, len(records)), closed: make(chan struct{})}
	for _, r := range records {
		l.records <- r
	}
	return l
}

func (l *fakeLog) Read(p []byte) (int, error) {
	if !l.sought {
		l.t.Error("the log is read from its start")
	}
	select {
	case r := <-l.records:
		if err, failed := r.(error); failed {
			return 0, err
		}
		return copy(p, ofKernel(r.(string))), nil
	case <-l.closed:
		return 0, io.ErrClosedPipe
	}
}

func (l *fakeLog) Seek(offset int64, whence int) (int64, error) {
	l.sought = offset == 0 && whence == io.SeekEnd
	return 0, nil
}

func (l *fakeLog) Close() error {
	close(l.closed)
	return nil
}

// run runs a Watcher on successive logs, of which nil can't be opened, until the test ends. It returns the reports, and
// the watcher's log.
func run(t *testing.T, logs ...*fakeLog) (ooms *[]OOM, log *bytes.Buffer) {
	t.Helper()
	ooms, log = &[]OOM{}, &bytes.Buffer{}
	w := New(Config{OOM: func(o OOM) { *ooms = append(*ooms, o) }, Logger: slog.New(slog.NewTextHandler(log, nil))})
	w.open = func() (io.ReadSeekCloser, error) {
		if len(logs) == 0 || logs[0] == nil {
			logs = logs[min(1, len(logs)):]
			return nil, errors.New("no such device")
		}
		l := logs[0]
		logs = logs[1:]
		return l, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	synctest.Wait()
	return ooms, log
}

// A report is passed on; records that were overwritten are skipped, and reported once an hour.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := &fakeLog{t: t, records: make(chan any, 8), closed: make(chan struct{})}
		ooms, log := run(t, lost)
		for _, r := range []any{unix.EPIPE, global, unix.EPIPE, globalKill, limited} {
			lost.records <- r
		}
		synctest.Wait()
		if diff := cmp.Diff([]OOM{{true, "sh", 7}, {false, "python3", 573}}, *ooms); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if n := strings.Count(log.String(), "were overwritten"); n != 1 {
			t.Errorf("%d messages:\n%s", n, log)
		}
		time.Sleep(lostPeriod)
		lost.records <- unix.EPIPE
		synctest.Wait()
		if n := strings.Count(log.String(), "were overwritten"); n != 2 {
			t.Errorf("%d messages an hour later:\n%s", n, log)
		}
	})
}

// Without a log that can be opened or read, one message is logged, and one when it can be read again.
func TestNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last := newLog(t, limited)
		ooms, log := run(t, nil, nil, newLog(t, global, errors.New("broken")), nil, last)
		time.Sleep(10 * reopenPeriod)
		synctest.Wait()
		if diff := cmp.Diff([]OOM{{true, "sh", 7}, {false, "python3", 573}}, *ooms); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		text := log.String()
		if strings.Count(text, "level=WARN") != 2 || strings.Count(text, "can be read again") != 2 ||
			!strings.Contains(text, "no such device") || !strings.Contains(text, "read a record: broken") {
			t.Errorf("log:\n%s", text)
		}
	})
}

// What can be opened and has no records, such as /dev/null, is one failure, however often it is tried.
func TestNoRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs []*fakeLog
		for range 10 {
			logs = append(logs, newLog(t, io.EOF))
		}
		_, log := run(t, logs...)
		time.Sleep(20 * reopenPeriod)
		synctest.Wait()
		if n := strings.Count(log.String(), "\n"); n != 1 {
			t.Errorf("%d messages:\n%s", n, log)
		}
	})
}

// A FIFO without a writer isn't waited for.
func TestFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kmsg")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	w := New(Config{OOM: func(o OOM) { t.Errorf("%+v", o) }})
	w.open = func() (io.ReadSeekCloser, error) { return open(path) }
	ended := make(chan error, 1)
	go func() { ended <- w.watch(t.Context()) }()
	select {
	case err := <-ended:
		if !errors.Is(err, unix.ESPIPE) {
			t.Errorf("it ends with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for a writer")
	}
}

// A flood of records is read at a bounded rate.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flood := &fakeLog{t: t, records: make(chan any, 2*recordsAtOnce), closed: make(chan struct{})}
		for range cap(flood.records) {
			flood.records <- "noise"
		}
		run(t, flood)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		read := cap(flood.records) - len(flood.records)
		if most := recordsAtOnce + 4*recordsPerSecond; read < recordsAtOnce || read > most {
			t.Errorf("%d records in 3 s; want %d to %d", read, recordsAtOnce, most)
		}
	})
}
