package kubeletproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// kubeletUnit is the unit of all packages and tools that install a kubelet.
	kubeletUnit = "kubelet.service"
	// maxArguments bounds a command line, in bytes; longer ones are cut.
	maxArguments = 256 << 10
	// maxProcesses bounds how many processes are looked at.
	maxProcesses = 1 << 18
	// searchTime bounds a search.
	searchTime = 30 * time.Second
)

// Process is a running kubelet.
type Process struct {
	PID int
	// Unit is its systemd unit, such as kubelet.service; empty: none.
	Unit string
	// Why is how the kubelet conflicts with podexecd, such as "it uses the container runtime /run/x.sock".
	Why string
}

func (p *Process) String() string {
	if p.Unit != "" {
		return fmt.Sprintf("process %d of %s", p.PID, p.Unit)
	}
	return fmt.Sprintf("process %d", p.PID)
}

// Search finds a kubelet that conflicts with podexecd.
type Search struct {
	// Proc is where procfs is mounted; empty: /proc.
	Proc string
	// Socket is the path of podexecd's container runtime; empty: it is on another machine.
	Socket string
	// Dir is podexecd's --kubelet-dir; empty: it has none.
	Dir string
	// Ports are the TCP ports that podexecd serves on.
	Ports []int
}

// Find returns a kubelet that uses the runtime or the directory, serves a socket in the directory, listens on one of the ports, or is the main
// process of kubelet.service; nil: there is none. A process that can't be read is skipped. The error is that of procfs, or ctx's, or that of a node's own
// process whose files can't be read in time.
func (s Search) Find(ctx context.Context) (*Process, error) {
	if s.Proc == "" {
		s.Proc = "/proc"
	}
	ours := owned{runtime: stat(s.Socket), dir: stat(s.Dir)}
	listening := listeners(s.Proc, s.Ports)
	own, _ := os.Readlink(filepath.Join(s.Proc, "self", "ns", "pid"))
	reader := newReader(s.Proc)
	ctx, cancel := context.WithTimeoutCause(ctx, searchTime, fmt.Errorf("the search takes more than %v", searchTime))
	defer cancel()
	dir, err := os.Open(s.Proc)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if found := s.serving(ctx, own); found != nil {
		return found, nil
	}
	for seen := 0; ; {
		names, err := dir.Readdirnames(1024)
		if errors.Is(err, io.EOF) {
			return nil, nil //nolint:nilnil // There is none.
		}
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			pid, err := strconv.Atoi(name)
			if err != nil || pid == os.Getpid() {
				continue
			}
			if seen++; seen > maxProcesses {
				return nil, fmt.Errorf("more than %d processes run", maxProcesses)
			}
			p := kubelet{dir: filepath.Join(s.Proc, name)}
			if !p.read() || !p.isRoot() {
				continue
			}
			why, err := p.conflict(ctx, reader, ours, listening, own)
			if err != nil {
				return nil, fmt.Errorf("process %d: %w", pid, err)
			}
			if why != "" && !p.isLauncher() {
				return &Process{PID: pid, Unit: p.unit(), Why: why}, nil
			}
		}
	}
}

// kubelet is a process that may be a kubelet, by its directory in procfs.
type kubelet struct {
	dir       string
	arguments []string
}

// conflict returns how the process conflicts with podexecd; "" if it doesn't. Ports and unit count only for a process of
// this PID namespace: a pod may have any process in the node's network, and another systemd in its cgroup.
func (k *kubelet) conflict(ctx context.Context, r *reader, ours owned, listening map[string]int, namespace string) (string, error) {
	var used string
	var err error
	if ours != (owned{}) {
		used, err = r.uses(ctx, k, ours)
	}
	if used != "" {
		return used, nil
	}
	if other, _ := os.Readlink(filepath.Join(k.dir, "ns", "pid")); other != namespace {
		return "", err
	}
	if port, ok := k.listens(listening); ok {
		return fmt.Sprintf("it listens on port %d", port), nil
	}
	if k.unit() == kubeletUnit {
		return "it is the process of " + kubeletUnit, nil
	}
	return "", err
}

// read reads the arguments, and reports whether the name of the program is the kubelet's.
func (k *kubelet) read() bool {
	file, err := os.Open(filepath.Join(k.dir, "cmdline"))
	if err != nil {
		return false
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxArguments))
	if err != nil || len(text) == 0 {
		return false
	}
	k.arguments = strings.Split(string(bytes.TrimSuffix(text, []byte{0})), "\x00")
	return path.Base(k.arguments[0]) == "kubelet"
}

// isRoot reports whether the process runs as this machine's root, as each kubelet does. Otherwise any user could keep podexecd
// from starting by a process of that name.
func (k *kubelet) isRoot() bool {
	file, err := os.Open(filepath.Join(k.dir, "status"))
	if err != nil {
		return false
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, 1<<16))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
			// The real, effective, saved and file system user.
			fields := strings.Fields(ids)
			return len(fields) == 4 && fields[1] == "0"
		}
	}
	return false
}

// unit returns the systemd unit that the process's cgroup has the name of.
func (k *kubelet) unit() string {
	file, err := os.Open(filepath.Join(k.dir, "cgroup"))
	if err != nil {
		return ""
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, 1<<16))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name := path.Base(strings.TrimSpace(line)); strings.HasSuffix(name, ".service") {
			return name
		}
	}
	return ""
}
