package iscsi

import (
	"context"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// cut ends the machine between the making of the volume's record of open-iscsi and its first setting. The next boot logs in by it.
func (b *bench) cut(v volume) {
	b.t.Helper()
	b.Backend.cfg.settle = time.Hour // What has become of the login isn't looked at before the power cut.
	begun, end := b.hang("hangupdate")
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- b.Stage(ctx, v.Staging) }()
	pid := begun()
	cancel()
	if err := <-done; storage.OutcomeOf(err) != storage.Uncertain {
		b.t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
	_ = unix.Kill(pid, unix.SIGKILL)
	end()
	b.run(append(node(portal1), "--login")...)
	b.start("another")
}

// TestPowerCut: a session that the boot has made by a record of open-iscsi that podexecd didn't finish can't be told from another
// program's. It stays, with its record, and the error has the commands that remove both.
func TestPowerCut(t *testing.T) {
	for _, tag := range []string{"", ",1"} {
		b := newBench(t, 1)
		v := b.persistent("u1", pv(1), false)
		b.cut(v)
		if tag != "" {
			b.discovered(target, portal1, "default")
		}
		b.calls()
		for range 2 {
			err := b.Stage(t.Context(), v.Staging)
			if storage.OutcomeOf(err) != storage.Unrepeatable || !strings.Contains(err.Error(), "podexecd didn't make the session session1") ||
				!strings.Contains(err.Error(), "iscsiadm "+strings.Join(node(portal1), " ")+" --logout") ||
				!strings.Contains(err.Error(), "iscsiadm "+strings.Join(node(portal1), " ")+" -o delete") {
				t.Errorf("tag %q: %v (outcome %d)", tag, err, storage.OutcomeOf(err))
			}
		}
		if calls := b.calls(); strings.Contains(calls, "--log") || strings.Contains(calls, "delete") || !b.hasSession(portal1) {
			t.Errorf("tag %q: calls:\n%s", tag, calls)
		}
		b.run(append(node(portal1), "--logout")...)
		b.run(append(node(portal1), "-o", "delete")...)
		b.up(v)
		b.down(v)
		b.nothing()
	}
}

// TestPowerCutGone: so it is if the pod is gone meanwhile.
func TestPowerCutGone(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", pv(1), false)
	b.cut(v)
	must(t, b.Unstage(t.Context(), v.Staging))
	if !b.hasSession(portal1) || !b.hasNode(portal1) {
		t.Errorf("session %v, record %v", b.hasSession(portal1), b.hasNode(portal1))
	}
	b.run(append(node(portal1), "--logout")...)
	b.run(append(node(portal1), "-o", "delete")...)
	b.start("another")
	waitFor(t, func() bool { all, _ := b.records.list(); return len(all) == 0 })
	b.nothing()
}
