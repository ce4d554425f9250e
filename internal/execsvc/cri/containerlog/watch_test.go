package containerlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// events receives the output, one item for each write. A write waits for its reader.
type events chan string

func (e events) Write(p []byte) (int, error) {
	e <- string(p)
	return len(p), nil
}

// inotifyInstances returns how many inotify instances this process has.
func inotifyInstances(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	n := 0
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); err == nil && strings.Contains(to, "inotify") {
			n++
		}
	}
	return n
}

// followMany follows a log from many readers, with one Watch, until the returned stop is called. It returns when each
// reader has waited once.
func followMany(t *testing.T, logs []Log) (stop func()) {
	t.Helper()
	w, done := new(Watch), errors.New("done")
	ctx, cancel := context.WithCancelCause(t.Context())
	ends, idle := make(chan error, len(logs)), make(chan struct{}, len(logs))
	for _, l := range logs {
		first := true
		l.Watch = w
		l.Running = func(context.Context) (bool, error) {
			if first {
				first = false
				idle <- struct{}{}
			}
			return true, nil
		}
		go func() { ends <- Read(ctx, l) }()
	}
	for range logs {
		<-idle
	}
	return func() {
		cancel(done)
		for range logs {
			if err := <-ends; !errors.Is(err, done) {
				t.Errorf("a follow ended: %v", err)
			}
		}
		if w.queue != nil || len(w.readers) > 0 {
			t.Errorf("something is watched still: %v", w.readers)
		}
	}
}

// Any number of follows share one inotify instance, and each is notified at once, also those of one log. A slow reader
// delays no other.
func TestManyFollowsShareAnInstance(t *testing.T) {
	const many = 300
	var logs []Log
	var received []events
	for i := range many {
		var l Log
		if i%3 == 2 {
			l = logs[i-1]
		} else {
			l, _, _ = logOf(t, "")
		}
		received = append(received, make(events, 1))
		l.Stdout = received[i]
		logs = append(logs, l)
	}
	before := inotifyInstances(t)
	stop := followMany(t, logs)
	if n := inotifyInstances(t) - before; n != 1 {
		t.Errorf("they have %d inotify instances; want 1", n)
	}
	stuck := received[0]
	appendTo(t, path(logs[0]), strings.Repeat(at+"stdout F stuck\n", 10))
	began := time.Now()
	for round := range 5 {
		for i, l := range logs[1:] {
			if i == 0 || path(l) != path(logs[i]) {
				appendTo(t, path(l), fmt.Sprintf("%sstdout F %d\n", at, round))
			}
		}
		for i, got := range received[1:] {
			if text := <-got; text != fmt.Sprintf("%d\n", round) {
				t.Fatalf("log %d, round %d: %q", i+1, round, text)
			}
		}
	}
	if took := time.Since(began); took > 3*poll {
		t.Errorf("it took %v; the changes weren't told", took)
	}
	go func() {
		for range stuck {
		}
	}()
	stop()
	close(stuck)
}

// A log that the kernel can't watch is polled.
func TestFollowWithoutAWatch(t *testing.T) {
	l, _, _ := logOf(t, at+"stdout F one\n")
	got := make(events, 10)
	l.Stdout = got
	wrote := false
	l.Running = func(context.Context) (bool, error) {
		if !wrote {
			wrote = true
			appendTo(t, path(l), at+"stdout F two\n")
		}
		return len(got) < 2, nil
	}
	if err := Read(t.Context(), l); err != nil || <-got+<-got != "one\ntwo\n" {
		t.Errorf("%v", err)
	}
}

// Lost events make all readers check their logs; events without a reader have no effect.
func TestLostEvents(t *testing.T) {
	l, _, _ := logOf(t, "")
	l.Stdout = io.Discard
	f, err := open(l.Dir, l.Name)
	check(t, err)
	defer f.close()
	var w Watch
	c, err := w.add(f)
	check(t, err)
	defer w.remove(c)
	w.dispatch(w.queue, make([]byte, 16))
	if len(c.pending) != 0 {
		t.Error("it is told of an event of another log")
	}
	lost := make([]byte, 16)
	binary.NativeEndian.PutUint32(lost[4:], unix.IN_Q_OVERFLOW)
	w.dispatch(w.queue, lost)
	if len(c.pending) != 1 || !c.more.Load() {
		t.Error("it isn't told that events were lost")
	}
}
