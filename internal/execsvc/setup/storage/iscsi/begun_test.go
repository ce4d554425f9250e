package iscsi

import (
	"context"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// cut ends the machine between the making of the volume's record of open-iscsi and its first setting. The next boot logs in by it.
func (b *bench) cut(v volume) {
	b.t.Helper()
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

// TestPowerCut: a session that the boot has made by a record of open-iscsi that podexecd didn't finish is ended.
func TestPowerCut(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", pv(1), false)
	b.cut(v)
	b.calls()
	b.up(v)
	if calls := b.calls(); strings.Count(calls, "--logout") != 1 || strings.Count(calls, "--login") != 1 {
		t.Errorf("calls:\n%s", calls)
	}
	b.down(v)
	b.nothing()

	// The pod is gone meanwhile.
	b.start("boot")
	b.cut(v)
	must(t, b.Unstage(t.Context(), v.Staging))
	b.nothing()
}

// TestPowerCutUsed: such a session isn't ended while a disk of it is in use, and is when it isn't any more.
func TestPowerCutUsed(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", pv(1), false)
	b.cut(v)
	b.machine.mu.Lock()
	b.appear(1, 1)
	b.machine.mu.Unlock()
	user, err := os.Open(b.luns[1]) // The process of this test isn't the helper.
	must(t, err)
	defer user.Close()
	err = b.Stage(t.Context(), v.Staging)
	if storage.OutcomeOf(err) != storage.NotSent || !strings.Contains(err.Error(), "the disk sda is in use") ||
		!strings.Contains(err.Error(), "iscsiadm "+strings.Join(node(portal1), " ")+" --logout") {
		t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
	must(t, b.Unstage(t.Context(), v.Staging))
	if !b.hasSession(portal1) || !b.hasNode(portal1) {
		t.Error("it is ended")
	}
	must(t, user.Close())
	b.start("another")
	waitFor(t, func() bool { all, _ := b.records.list(); return len(all) == 0 })
	b.machine.mu.Lock()
	os.RemoveAll(b.path("down", portal1, "session1/target1:0:0"))
	os.Remove(b.path("sys/block/sda"))
	os.Remove(b.path("dev/sda"))
	b.machine.mu.Unlock()
	b.nothing()
}

// TestPowerCutNotOwn: a session beside a record that was finished, or that a discovery has replaced, was made by another program.
func TestPowerCutNotOwn(t *testing.T) {
	for _, tag := range []string{"", ",1"} {
		b := newBench(t, 1)
		v := b.persistent("u1", pv(1), false)
		b.cut(v)
		if tag == "" {
			b.run(append(node(portal1), "-o", "update", "-n", "node.startup", "-v", "manual")...)
		} else {
			b.discovered(target, portal1, "default")
		}
		err := b.Stage(t.Context(), v.Staging)
		if storage.OutcomeOf(err) != storage.Unrepeatable || !strings.Contains(err.Error(), "podexecd didn't make the session session1") {
			t.Errorf("tag %q: %v (outcome %d)", tag, err, storage.OutcomeOf(err))
		}
		must(t, b.Unstage(t.Context(), v.Staging))
		if nodes, err := os.ReadDir(b.path("nodes")); err != nil || len(nodes) != 1 || !b.hasSession(portal1) {
			t.Errorf("tag %q: %v, %v", tag, nodes, err)
		}
	}
}
