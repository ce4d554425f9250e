package iscsi

import (
	"context"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// TestLateLogout: a session that iscsid may still end is given no other volume, also after a restart: its disk would be lost.
func TestLateLogout(t *testing.T) {
	b := newBench(t, 1, 2)
	v, other := b.persistent("u1", pv(1), false), b.persistent("u2", pv(2), false)
	b.Backend.cfg.settle = time.Hour
	for _, killed := range []bool{false, true} {
		must(t, b.Stage(t.Context(), v.Staging))
		begun, end := b.hang("hangout")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Unstage(ctx, v.Staging) }()
		if pid := begun(); killed {
			must(t, unix.Kill(pid, unix.SIGKILL))
		} else {
			cancel()
		}
		if err := <-done; storage.OutcomeOf(err) != storage.Uncertain {
			t.Errorf("killed: %v: %v", killed, err)
		}
		cancel()
		end()
		refused := func() {
			err := b.Stage(t.Context(), other.Staging)
			if storage.OutcomeOf(err) != storage.NotSent || !strings.Contains(err.Error(), "a logout of") {
				t.Errorf("killed: %v: %v", killed, err)
			}
		}
		refused()
		if killed {
			// iscsid goes on, and the next volume has a session of its own.
			b.run(append(node(portal1), "--logout")...)
		} else {
			b.settleTime = time.Hour
			b.start("boot")
			refused()
			// It has done nothing.
			b.settleTime = time.Millisecond
			b.start("boot")
			waitFor(t, func() bool { return b.stays(other.sessions(t)) == nil })
		}
		b.up(other)
		b.down(other)
		must(t, b.Unstage(t.Context(), v.Staging))
		b.nothing()
		b.Backend.cfg.settle = time.Hour
	}
}

// TestLateLogin: iscsid may go on with a login whose iscsiadm was killed, and its helper wasn't. The session is recorded until then.
func TestLateLogin(t *testing.T) {
	b := newBench(t, 1)
	b.addPortal(portal2)
	v := b.persistent("u1", pv(1), false)
	b.Backend.cfg.settle = time.Hour
	begun, end := b.hang("hang")
	done := make(chan error, 1)
	go func() { done <- b.Stage(t.Context(), v.Staging) }()
	must(t, unix.Kill(begun(), unix.SIGKILL))
	if err := <-done; storage.OutcomeOf(err) != storage.Uncertain || !strings.Contains(err.Error(), "may not have ended") {
		t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
	end()
	// iscsid goes on, and the session is podexecd's.
	b.run(append(node(portal1), "--login")...)
	b.up(v)
	b.start("boot")
	b.down(v)
	b.nothing()
}
