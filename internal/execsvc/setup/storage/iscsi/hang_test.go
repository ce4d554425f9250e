package iscsi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// hang has logins wait for ever, or "hangout" logouts, or "hangupdate" changes of records, until end. begun returns the process that waits.
func (b *bench) hang(name string) (begun func() (pid int), end func()) {
	b.t.Helper()
	must(b.t, unix.Mkfifo(b.path(name), 0o600))
	f, err := os.OpenFile(b.path(name), os.O_RDONLY|unix.O_NONBLOCK, 0)
	must(b.t, err)
	b.t.Cleanup(func() { f.Close() })
	return func() (pid int) {
			b.t.Helper()
			waitFor(b.t, func() bool {
				buffer := make([]byte, 64)
				n, err := f.Read(buffer)
				if n > 0 && err == nil {
					_, err = fmt.Sscan(string(buffer[:n]), &pid)
				}
				return n > 0 && err == nil
			})
			return pid
		}, func() {
			b.t.Helper()
			must(b.t, os.Remove(b.path(name)))
		}
}

// TestLoginHangs: a portal that doesn't answer keeps no other target waiting. The volume counts as attached, and its session isn't taken
// for ended while iscsid may still make it.
func TestLoginHangs(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", pv(1), false)
	begun, end := b.hang("hang")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- b.Stage(ctx, v.Staging) }()
	begun()
	// Another volume of the session waits, with its own context; one of another session doesn't.
	same := b.persistent("u2", pv(2), false)
	late, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	if err := b.Stage(late, same.Staging); storage.OutcomeOf(err) != storage.NotSent || !strings.Contains(err.Error(), "another volume's operation") {
		t.Errorf("error %v", err)
	}
	end()
	b.addPortal(portal2)
	other := pv(1)
	other.Spec.ISCSI.TargetPortal = portal2
	another := b.persistent("u3", other, false)
	b.up(another)
	b.down(another)

	b.Backend.cfg.settle = time.Hour
	cancel()
	err := <-done
	if storage.OutcomeOf(err) != storage.Uncertain || !errors.Is(err, foreign.ErrNoAnswer) {
		t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
	if err := b.Unstage(t.Context(), v.Staging); storage.OutcomeOf(err) != storage.Uncertain || !strings.Contains(err.Error(), "may not have ended") {
		t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
	// iscsid goes on.
	b.run(append(node(portal1), "--login")...)
	// After a restart too.
	b.start("boot")
	waitFor(t, func() bool { return b.settled(v.sessions(t)[0]) == nil })
	must(t, b.Unstage(t.Context(), v.Staging))
	b.nothing()
}

// TestRecordFirst: without space for the record, no session is made.
func TestRecordFirst(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", pv(1), false)
	dir := b.path("records")
	must(t, os.Rename(dir, dir+"-away"))
	must(t, os.WriteFile(dir, nil, 0o600))
	err := b.Stage(t.Context(), v.Staging)
	if err == nil || b.hasSession(portal1) || b.hasNode(portal1) {
		t.Errorf("error %v", err)
	}
	must(t, os.Remove(dir))
	must(t, os.Rename(dir+"-away", dir))
	b.up(v)
	b.down(v)
	b.nothing()
}
