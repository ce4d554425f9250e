package kubeletproc

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxSockets bounds the table of sockets, in bytes.
	maxSockets = 64 << 20
	// maxDescriptors bounds how many descriptors of a process are looked at.
	maxDescriptors = 1 << 16
	// stateListen is TCP_LISTEN in the table.
	stateListen = "0A"
)

// listeners returns the TCP sockets that listen on one of the ports in this network namespace: their descriptors' targets,
// such as socket:[123], with the port. A table that can't be read has none.
func listeners(proc string, ports []int) map[string]int {
	found := map[string]int{}
	if len(ports) == 0 {
		return found
	}
	for _, table := range []string{"tcp", "tcp6"} {
		file, err := os.Open(filepath.Join(proc, "self", "net", table))
		if err != nil {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(file, maxSockets))
		_ = file.Close()
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			// sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode
			fields := strings.Fields(line)
			if len(fields) < 10 || fields[3] != stateListen {
				continue
			}
			_, hex, _ := strings.Cut(fields[1], ":")
			port, err := strconv.ParseUint(hex, 16, 16)
			if err == nil && slices.Contains(ports, int(port)) {
				found["socket:["+fields[9]+"]"] = int(port)
			}
		}
	}
	return found
}

// listens returns the port of a listening socket that the process has.
func (k *kubelet) listens(listening map[string]int) (int, bool) {
	if len(listening) == 0 {
		return 0, false
	}
	dir, err := os.Open(filepath.Join(k.dir, "fd"))
	if err != nil {
		return 0, false
	}
	defer dir.Close()
	names, err := dir.Readdirnames(maxDescriptors)
	if err != nil {
		return 0, false
	}
	for _, name := range names {
		target, err := os.Readlink(filepath.Join(k.dir, "fd", name))
		if port, ok := listening[target]; err == nil && ok {
			return port, true
		}
	}
	return 0, false
}
