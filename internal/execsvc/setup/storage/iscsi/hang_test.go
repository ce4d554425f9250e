package iscsi

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// hang has logins wait for ever, until end. begun returns when one waits.
func (b *bench) hang() (begun, end func()) {
	b.t.Helper()
	must(b.t, unix.Mkfifo(b.path("hang"), 0o600))
	f, err := os.OpenFile(b.path("hang"), os.O_RDONLY|unix.O_NONBLOCK, 0)
	must(b.t, err)
	b.t.Cleanup(func() { f.Close() })
	return func() {
			b.t.Helper()
			waitFor(b.t, func() bool {
				n, err := f.Read(make([]byte, 64))
				return n > 0 && err == nil
			})
		}, func() {
			b.t.Helper()
			must(b.t, os.Remove(b.path("hang")))
		}
}

// TestLoginHangs: a portal that doesn't answer keeps no other target waiting. The volume counts as attached, and its session isn't taken
// for ended while iscsid may still make it.
func TestLoginHangs(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", pv(1), false)
	begun, end := b.hang()
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
