package devnode

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestSockets checks that each containerd listens only beneath its node's directories: a socket at a fixed path, as
// NRI's in /run/nri, would let one containerd keep another from its start.
func TestSockets(t *testing.T) {
	for name, runtime := range everyContainerd {
		t.Run(name, func(t *testing.T) {
			node := startNode(t, Config{Dir: t.TempDir(), Runtime: runtime, SkipImages: true})
			found := listeners(t, node.Runtime().Pid())
			if len(found) == 0 {
				t.Error("no socket found, not even that of CRI")
			}
			for _, path := range found {
				if !within(path, node.Dir()) && !within(path, node.socketDir) {
					t.Errorf("%s is outside of %s and %s", path, node.Dir(), node.socketDir)
				}
			}
		})
	}
}

// listeners returns the paths of a process's listening Unix sockets. See proc_net(5): the fields of a line are the
// number, the references, the protocol, the flags (__SO_ACCEPTCON is 0x10000), the type, the state, the inode and the
// path.
func listeners(t *testing.T, pid int) []string {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	descriptors, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{}
	for _, descriptor := range descriptors {
		target, err := os.Readlink(filepath.Join(dir, "fd", descriptor.Name()))
		if err == nil { // a descriptor may be closed meanwhile
			own[target] = true
		}
	}
	table, err := os.ReadFile(filepath.Join(dir, "net/unix"))
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) == 8 && fields[3] == "00010000" && own["socket:["+fields[6]+"]"] {
			paths = append(paths, fields[7])
		}
	}
	return paths
}
