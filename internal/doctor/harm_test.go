package doctor

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
)

// v1 makes the machine one with cgroup v1 and these controllers.
func (n *node) v1(controllers string) {
	n.t.Helper()
	if err := os.Remove(n.dir + "/sys/fs/cgroup/cgroup.controllers"); err != nil {
		n.t.Fatal(err)
	}
	var mounts strings.Builder
	for c := range strings.FieldsSeq(controllers) {
		fmt.Fprintf(&mounts, "32 31 0:29 / /sys/fs/cgroup/%s rw,relatime - cgroup cgroup rw,%s\n", c, c)
	}
	n.write("proc/self/mountinfo", mounts.String())
}

// deadSocket returns a socket on which no process listens any more.
func (n *node) deadSocket() string {
	n.t.Helper()
	path := filepath.Join(n.t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		n.t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		n.t.Fatal(err)
	}
	return path
}

// emptyServer returns the socket of a gRPC server without services.
func (n *node) emptyServer() string {
	n.t.Helper()
	path := filepath.Join(n.t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		n.t.Fatal(err)
	}
	s, served := grpc.NewServer(), make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	n.t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			n.t.Errorf("serve: %v", err)
		}
	})
	return path
}

// swap gives the machine the swap of the guest, which podexecd accepts.
func (n *node) swap() {
	n.t.Helper()
	n.config.Podexec.Settings.FailSwapOn = false
	n.write("proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/ubdb                               partition\t524284\t\t0\t\t-1\n")
}

// own gives podexecd a mount namespace of its own, as systemd makes it: its mounts are shared, but in a group of their own.
func (n *node) own() {
	n.t.Helper()
	n.link(fmt.Sprintf("proc/%d/ns/mnt", podexecdPID), "mnt:[2]")
	n.write(fmt.Sprintf("proc/%d/mountinfo", podexecdPID), "120 1 98:0 / / rw,noatime shared:200 master:1 - ext4 /dev/root rw\n")
}
