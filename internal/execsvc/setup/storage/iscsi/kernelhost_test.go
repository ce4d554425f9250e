//go:build iscsiguest

package iscsi_test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/iscsi"
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

// TestKernelReboot: after a reboot, open-iscsi still has podexecd's records, and there is no session. The volume is usable, and leaves nothing.
func TestKernelReboot(t *testing.T) {
	n := newNode(t)
	g := newTarget(t, "reboot", []string{portal1}, newDisk(t, "reboot-a"), newDisk(t, "reboot-b"))
	again, gone := n.volume("u1", pv("pv0", g, 0)), n.volume("u2", pv("pv1", g, 1))
	must(t, again.up())
	again.write("file", "data")
	must(t, gone.up())
	n.powerOff(g)
	n.boot += "-next"
	n.restart()
	must(t, again.up())
	again.has("file", "data")
	must(t, gone.down())
	must(t, again.down())
	n.same(n.begin)

	// A session of the host, which it has made after the boot with podexecd's record, isn't podexecd's.
	must(t, again.up())
	n.powerOff(g)
	command(t, "iscsiadm", "-m", "node", "-T", g.iqn, "-p", portal1, "--login")
	n.boot += "-next"
	n.restart()
	if err := again.up(); err == nil {
		t.Error("the host's session is used")
	} else {
		t.Log(err)
	}
	must(t, again.down())
	if g.sessions() != 1 {
		t.Error("the host's session has been ended")
	}
	_, _ = try("iscsiadm", "-m", "node", "-T", g.iqn, "-p", portal1, "-o", "new") // It may be gone.
	command(t, "iscsiadm", "-m", "node", "-T", g.iqn, "-p", portal1, "--logout")
	command(t, "iscsiadm", "-m", "node", "-T", g.iqn, "-p", portal1, "-o", "delete")
	n.swept()
	n.same(n.begin)
}

// powerOff ends all mounts and sessions of the node, and leaves the records.
func (n *node) powerOff(g *target) {
	n.t.Helper()
	for {
		table, err := os.ReadFile("/proc/self/mounts")
		must(n.t, err)
		at := ""
		for line := range strings.Lines(string(table)) {
			if fields := strings.Fields(line); strings.HasPrefix(fields[1], n.kubelet) {
				at = fields[1]
			}
		}
		if at == "" {
			break
		}
		command(n.t, "umount", at)
	}
	command(n.t, "iscsiadm", "-m", "node", "-T", g.iqn, "-p", g.portals[0], "--logout")
}

// TestKernelInUse: a disk that the host uses too stays, and so does its session.
func TestKernelInUse(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, device string) (end func()){
		"mounted": func(t *testing.T, device string) func() {
			at := t.TempDir()
			command(t, "mount", device, at)
			return func() { command(t, "umount", at) }
		},
		"mounted in another namespace": func(t *testing.T, device string) func() {
			//nolint:gosec,noctx // A disk of the test, which ends it.
			cmd := exec.Command("unshare", "--mount", "sh", "-ec", "mount -t ext4 "+device+" /mnt; echo mounted; exec sleep 1000")
			said := &strings.Builder{}
			cmd.Stderr = said
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			if _, err = bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatal(err, cmd.Wait(), said)
			}
			return func() {
				check(t, cmd.Process.Kill())
				_ = cmd.Wait()
			}
		},
		"open": func(t *testing.T, device string) func() {
			f, err := os.Open(device)
			must(t, err)
			return func() { check(t, f.Close()) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			g := newTarget(t, "inuse", []string{portal1}, newDisk(t, "inuse"))
			vol := n.volume("u1", pv("pv", g, 0))
			must(t, vol.up())
			vol.write("file", "data")
			end := use(t, disk0(t))
			err := vol.down()
			t.Log(err)
			if got := len(disks(t)); err == nil || got != 1 || g.sessions() != 1 {
				t.Errorf("%d disks, %d sessions, %v", got, g.sessions(), err)
			}
			end()
			eventually(t, time.Minute, vol.down)
			n.same(n.begin)
		})
	}
}

// TestKernelInitiator: a volume with a name of its own for the initiator.
func TestKernelInitiator(t *testing.T) {
	n := newNode(t)
	g := newTarget(t, "initiator", []string{portal1}, newDisk(t, "initiator"))
	g.only("iqn.2026-11.example:another")
	v := pv("pv", g, 0)
	refused := n.volume("u1", v)
	if err := refused.up(); err == nil {
		t.Fatal("the target lets in everyone")
	}
	must(t, refused.down())
	v.Spec.ISCSI.InitiatorName = ptr.To("iqn.2026-11.example:another")
	vol := n.volume("u1", v)
	must(t, vol.up())
	vol.write("file", "data")
	n.restart()
	must(t, vol.down())
	n.same(n.begin)
}

// TestKernelInline: a pod that names a target itself.
func TestKernelInline(t *testing.T) {
	n := newNode(t)
	g := newTarget(t, "inline", []string{portal1}, diskOf(t, "inline", newFile(t, 320<<20))) // mkfs.xfs wants 300 MB.
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "u1"}}
	resolved, err := iscsi.Inline(n.kubelet, pod, &v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{
		ISCSI: &v1.ISCSIVolumeSource{TargetPortal: "127.0.0.1", IQN: g.iqn, FSType: "xfs"},
	}})
	must(t, err)
	vol := n.of("u1", resolved)
	must(t, vol.up())
	var stat unix.Statfs_t
	must(t, unix.Statfs(vol.publish.Dir, &stat))
	if stat.Type != unix.XFS_SUPER_MAGIC {
		t.Errorf("the file system is %x", stat.Type)
	}
	must(t, vol.down())
	n.same(n.begin)
}
