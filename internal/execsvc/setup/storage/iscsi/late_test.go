package iscsi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// TestLateLogout: a session that iscsid may still end is given no other volume, also after a restart: its disk would be lost.
func TestLateLogout(t *testing.T) {
	b := newBench(t, 1, 2)
	v, other := b.persistent("u1", pv(1), false), b.persistent("u2", pv(2), false)
	b.Backend.cfg.settle, b.sweepTime = time.Hour, -1
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

// TestUnsentLogout: a session for which no logout was sent isn't taken for one that ends, however often that fails, nor after a restart.
// One that an earlier logout may still end is.
func TestUnsentLogout(t *testing.T) {
	b := newBench(t, 1, 2)
	v, other := b.persistent("u1", pv(1), false), b.persistent("u2", pv(2), false)
	b.Backend.cfg.settle, b.settleTime, b.sweepTime = time.Hour, time.Hour, -1
	must(t, b.Stage(t.Context(), v.Staging))
	// Another disk of the session, without a file: whether it is in use can't be found out.
	var st unix.Stat_t
	must(t, unix.Stat(b.luns[2], &st))
	unit := b.path("sys/devices/host1/session1/target1:0:0/1:0:0:7")
	must(t, os.MkdirAll(filepath.Join(unit, "block/sdq"), 0o750))
	number := filepath.Join(unit, "block/sdq/dev")
	must(t, os.WriteFile(number, fmt.Appendf(nil, "%d:%d\n", unix.Major(st.Rdev), unix.Minor(st.Rdev)), 0o600))
	must(t, os.Symlink(filepath.Join(unit, "block/sdq"), b.path("sys/block/sdq")))
	if err := b.Unstage(t.Context(), v.Staging); err == nil || !strings.Contains(err.Error(), "sdq: no such file") {
		t.Errorf("error %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	session := v.sessions(t)[0]
	if err := b.leave(ended, v.Key, session); !strings.Contains(fmt.Sprint(err), "canceled") {
		t.Errorf("without a helper: %v", err)
	}
	if calls := b.calls(); strings.Contains(calls, "--logout") {
		t.Fatalf("a logout was sent: %s", calls)
	}
	live := []initiator.Session{session}
	must(t, b.stays(live))
	b.start("boot")
	must(t, b.stays(live))

	// It doesn't end what is known of an earlier logout.
	b.noteEnding(session)
	rec, _ := b.records.get(session)
	rec.Ending = true
	must(t, b.records.put(rec))
	if err := b.leave(ended, v.Key, session); err == nil {
		t.Error("a helper is started")
	}
	must(t, unix.Mknod(b.path("dev/sdq"), unix.S_IFBLK|0o600, int(st.Rdev)))
	use, err := os.Open(b.path("dev/sdq"))
	must(t, err)
	must(t, b.leave(t.Context(), v.Key, session)) // It is left, as it is in use.
	must(t, use.Close())
	for range 2 {
		if err := b.Stage(t.Context(), other.Staging); err == nil || !strings.Contains(err.Error(), "a logout of") {
			t.Errorf("error %v", err)
		}
		b.start("boot")
	}
	b.settleTime = time.Millisecond
	b.start("boot")
	waitFor(t, func() bool { return b.stays(live) == nil })
	must(t, os.RemoveAll(unit))
	must(t, errors.Join(os.Remove(b.path("sys/block/sdq")), os.Remove(b.path("dev/sdq"))))
	b.up(other)
	b.down(other)
	b.nothing()
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

// TestSettledLogin: a login without an answer is believed to have made a session until it has certainly ended. If there is one then, it is
// podexecd's. One that another program makes later isn't, also if another path of the volume is used, and after a restart.
func TestSettledLogin(t *testing.T) {
	for name, late := range map[string]bool{"it has made one": true, "it has made none": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 1)
			v := b.persistent("u1", pv(1), false)
			begun, end := b.hang("hang")
			b.Backend.cfg.settle = time.Hour
			done := make(chan error, 1)
			go func() { done <- b.Stage(t.Context(), v.Staging) }()
			must(t, unix.Kill(begun(), unix.SIGKILL))
			if err := <-done; storage.OutcomeOf(err) != storage.Uncertain {
				t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
			}
			end()
			if late {
				b.run(append(node(portal1), "--login")...)
			}
			session := v.sessions(t)[0]
			b.start("boot") // The settle time is a millisecond now.
			waitFor(t, func() bool {
				rec, has := b.records.get(session)
				return late && rec.SID == "session1" && !rec.Begun || !late && !has
			})
			if late {
				b.down(v)
				b.nothing()
				return
			}
			b.run(append(node(portal1), "-o", "new")...)
			b.run(append(node(portal1), "--login")...)
			err := b.Stage(t.Context(), v.Staging)
			if _, is := errors.AsType[*NotOwnError](err); !is {
				t.Errorf("error %v", err)
			}
			must(t, b.Unstage(t.Context(), v.Staging))
			if !b.hasSession(portal1) || !b.hasNode(portal1) {
				t.Error("the session of another program is ended")
			}
			b.run(append(node(portal1), "--logout")...)
			b.run(append(node(portal1), "-o", "delete")...)
		})
	}
}
