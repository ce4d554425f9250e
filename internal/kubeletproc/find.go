package kubeletproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/kubeletconfig"
	"github.com/podstream/podstream/internal/kubeletconfig/document"
	"github.com/podstream/podstream/internal/openfile"
)

const (
	// defaultRuntime is the kubelet's default socket.
	defaultRuntime = "/run/containerd/containerd.sock"
	// kubeletUnit is the unit of all packages and tools that install a kubelet.
	kubeletUnit = "kubelet.service"
	// maxArguments bounds a command line, in bytes; longer ones are cut.
	maxArguments = 256 << 10
	// maxProcesses bounds how many processes are looked at.
	maxProcesses = 1 << 18
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
	// Ports are the TCP ports that podexecd serves on.
	Ports []int
}

// Find returns a kubelet that uses the runtime, listens on one of the ports, or is the main process of kubelet.service; nil:
// there is none. A process that can't be read is skipped. The error is that of procfs, or ctx's.
func (s Search) Find(ctx context.Context) (*Process, error) {
	if s.Proc == "" {
		s.Proc = "/proc"
	}
	var runtime *unix.Stat_t
	if stat := new(unix.Stat_t); s.Socket != "" && unix.Stat(s.Socket, stat) == nil {
		runtime = stat
	}
	listening := listeners(s.Proc, s.Ports)
	own, _ := os.Readlink(filepath.Join(s.Proc, "self", "ns", "pid"))
	dir, err := os.Open(s.Proc)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
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
			if why := p.conflict(runtime, listening, own); why != "" && !p.isLauncher() {
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
func (k *kubelet) conflict(runtime *unix.Stat_t, listening map[string]int, namespace string) string {
	if used, ok := k.socket(); ok && runtime != nil && k.same(used, runtime) {
		return "it uses the container runtime " + used
	}
	if other, _ := os.Readlink(filepath.Join(k.dir, "ns", "pid")); other != namespace {
		return ""
	}
	if port, ok := k.listens(listening); ok {
		return fmt.Sprintf("it listens on port %d", port)
	}
	if k.unit() == kubeletUnit {
		return "it is the process of " + kubeletUnit
	}
	return ""
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

// socket returns the path of the runtime's socket by the flags, or else by the configuration file.
func (k *kubelet) socket() (string, bool) {
	var endpoint, config string
	flags := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.StringVar(&endpoint, "container-runtime-endpoint", "", "")
	flags.StringVar(&config, "config", "", "")
	if err := flags.Parse(k.arguments[1:]); err != nil && !errors.Is(err, pflag.ErrHelp) {
		return "", false
	}
	if endpoint == "" && config != "" {
		endpoint = k.configured(config)
	}
	if endpoint == "" {
		return defaultRuntime, true
	}
	socket := strings.TrimPrefix(strings.TrimPrefix(endpoint, "unix://"), "unix:")
	return socket, path.IsAbs(socket)
}

// configured returns the endpoint of a configuration file; "" if the file has none, or can't be read.
func (k *kubelet) configured(config string) string {
	if !path.IsAbs(config) {
		cwd, err := os.Readlink(filepath.Join(k.dir, "cwd"))
		if err != nil {
			return ""
		}
		config = path.Join(cwd, config)
	}
	fd, err := k.lookup(config)
	if err != nil {
		return ""
	}
	defer func() { _ = unix.Close(fd) }()
	file, err := openfile.Reopen(fd, config, unix.O_RDONLY)
	if err != nil {
		return ""
	}
	defer file.Close()
	data, err := openfile.ReadAll(context.Background(), file, document.MaxSize)
	if err != nil {
		return ""
	}
	docs, err := kubeletconfig.Parse([]kubeletconfig.File{{Path: config, Data: data}})
	if err != nil {
		return ""
	}
	merged, err := kubeletconfig.Merge(docs)
	if err != nil {
		return ""
	}
	return merged.ContainerRuntimeEndpoint
}

// lookup opens a path in the process's root, for reference only.
func (k *kubelet) lookup(name string) (int, error) {
	root, err := unix.Open(filepath.Join(k.dir, "root"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: k.dir, Err: err}
	}
	defer func() { _ = unix.Close(root) }()
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	return unix.Openat2(root, name, how)
}

// same reports whether the path is the same socket in the process's root.
func (k *kubelet) same(socket string, own *unix.Stat_t) bool {
	fd, err := k.lookup(socket)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	return unix.Fstat(fd, &stat) == nil && stat.Dev == own.Dev && stat.Ino == own.Ino
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
