package kernel

import (
	"bytes"
	"strconv"
	"strings"
)

// maxInterfaces is the limit of interfaces of one pod: a pod with CAP_NET_ADMIN makes as many as it likes. The kernel
// lists the oldest first, so that those of the runtime are among them.
const maxInterfaces = 64

// Network reads the interfaces of a process's network, except loopback; of a pod's network at most 64.
func (r *Reader) Network(pid int) ([]Interface, error) {
	var out []Interface
	err := r.read(r.path("proc/"+strconv.Itoa(pid)+"/net/dev"), func(data []byte) { out = parseNetwork(data) })
	if pid != 1 {
		out = out[:min(len(out), maxInterfaces)]
	}
	return out, err
}

func parseNetwork(data []byte) []Interface {
	var out []Interface
	for line := range bytes.Lines(data) {
		name, rest, found := bytes.Cut(line, []byte{':'})
		words := bytes.Fields(rest)
		// The first two lines are headings.
		if !found || len(words) < 16 {
			continue
		}
		i := Interface{Name: string(bytes.TrimSpace(name)), Receive: traffic(words[:8]), Transmit: traffic(words[8:])}
		if i.Name != "lo" {
			out = append(out, i)
		}
	}
	return out
}

func traffic(words [][]byte) Traffic {
	n := func(i int) uint64 { n, _ := digits(words[i]); return n }
	return Traffic{Bytes: n(0), Packets: new(n(1)), Errors: n(2), Dropped: new(n(3))}
}

// physical reports whether an interface is the node's own, and doesn't lead to a pod: cAdvisor's rule.
func physical(i Interface) bool {
	for _, prefix := range []string{"veth", "docker", "nerdctl"} {
		if strings.HasPrefix(i.Name, prefix) {
			return false
		}
	}
	return true
}
