package iscsi_test

import (
	"testing"
	"time"
)

// TestKernelForeignSession: a session that the host has made isn't used, changed or ended, nor its record.
func TestKernelForeignSession(t *testing.T) {
	n := newNode(t)
	g := newTarget(t, "host", []string{portal1}, newDisk(t, "host-a"), newDisk(t, "host-b"))
	other := newTarget(t, "other", []string{portal2}, newDisk(t, "other"))
	command(t, "iscsiadm", "-m", "node", "-T", g.iqn, "-p", portal1, "-o", "new")
	t.Cleanup(func() { command(t, "iscsiadm", "-m", "node", "-T", g.iqn, "-p", portal1, "-o", "delete") })
	recorded := n.state()
	// A record of the host's without a session.
	refused := n.volume("u1", pv("pv", g, 1))
	if err := refused.up(); err == nil {
		t.Error("the host's record is used")
	} else {
		t.Log(err)
	}
	must(t, refused.down())
	n.same(recorded)

	command(t, "iscsiadm", "-m", "node", "-T", g.iqn, "-p", portal1, "--login")
	t.Cleanup(func() { command(t, "iscsiadm", "-m", "node", "-T", g.iqn, "-p", portal1, "--logout") })
	loggedIn := n.state()
	if got := len(disks(t)); got != 2 {
		t.Errorf("the host has %d disks", got)
	}
	for lun := range int32(2) {
		refused := n.volume("u1", pv("pv", g, lun))
		if err := refused.up(); err == nil {
			t.Error("the host's session is used")
		} else {
			t.Log(err)
		}
		n.restart()
		must(t, refused.down())
		n.same(loggedIn)
	}
	vol := n.volume("u2", pv("other", other, 0))
	must(t, vol.up())
	vol.write("file", "data")
	must(t, vol.down())
	n.same(loggedIn)
	if g.sessions() != 1 {
		t.Errorf("%d sessions", g.sessions())
	}
}

// TestKernelRestart: a new podexecd finds what the one before it has made in its records, and lets it go.
func TestKernelRestart(t *testing.T) {
	n := newNode(t)
	g := newTarget(t, "restart", []string{portal1}, newDisk(t, "restart-a"), newDisk(t, "restart-b"))
	first, second := n.volume("u1", pv("pv0", g, 0)), n.volume("u2", pv("pv1", g, 1))
	must(t, first.up())
	must(t, second.up())
	all := n.state()
	n.restart()
	n.same(all)
	first.write("file", "data")
	must(t, first.up()) // as package storage repeats a call that had no answer
	n.same(all)
	must(t, second.down())
	if got := len(disks(t)); got != 1 || g.sessions() != 1 {
		t.Errorf("%d disks, %d sessions", got, g.sessions())
	}
	n.restart()
	first.has("file", "data")
	must(t, first.down())
	n.same(n.begin)

	// A restart with its session ended by hand meanwhile.
	must(t, first.up())
	ctx, cancel := limited()
	defer cancel()
	must(t, n.Unpublish(ctx, first.publish))
	command(t, "umount", "--all-targets", disk0(t))
	command(t, "iscsiadm", "-m", "node", "-T", g.iqn, "-p", portal1, "--logout")
	n.restart()
	must(t, first.down())
	n.same(n.begin)
	must(t, first.up())
	first.has("file", "data")
	must(t, first.down())
	n.same(n.begin)
}

// TestKernelDaemon: a restart of iscsid doesn't change a volume.
func TestKernelDaemon(t *testing.T) {
	n := newNode(t)
	g := newTarget(t, "daemon", []string{portal1}, newDisk(t, "daemon"))
	vol := n.volume("u1", pv("pv", g, 0))
	must(t, vol.up())
	vol.write("file", "data")
	command(t, "iscsiadm", "-k", "0")
	command(t, "iscsid")
	vol.has("file", "data")
	eventually(t, time.Minute, vol.down)
	n.same(n.begin)
}
