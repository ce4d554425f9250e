package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/kubeletconfig"
)

// ReadPodexec returns the settings of the podexecd that listens on the socket. It returns an error if no process
// listens there, or if the process can't be read.
func ReadPodexec(socket string) (*Podexec, error) {
	pid, err := listener(socket)
	if err != nil {
		return nil, err
	}
	dir := fmt.Sprintf("/proc/%d", pid)
	text, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return nil, fmt.Errorf("read podexecd's flags: %w", err)
	}
	work, err := os.Readlink(filepath.Join(dir, "cwd"))
	if err != nil {
		return nil, fmt.Errorf("read podexecd's working directory: %w", err)
	}
	args := strings.Split(string(bytes.TrimSuffix(text, []byte{0})), "\x00")
	p, err := ParsePodexec(args[1:], work)
	if err != nil {
		return nil, fmt.Errorf("read podexecd's flags: %w", err)
	}
	p.Running, p.PID = true, pid
	return p, nil
}

// ParsePodexec returns the settings of a podexecd with these flags, started in that directory.
func ParsePodexec(args []string, dir string) (*Podexec, error) {
	var common daemon.Flags
	var exec execconfig.Flags
	var config kubeletconfig.Paths
	fs := pflag.NewFlagSet("podexecd", pflag.ContinueOnError)
	fs.ParseErrorsAllowlist.UnknownFlags = true
	common.AddFlags(fs, "podexecd")
	fs.StringVar(&config.Config, "config", "", "")
	fs.StringVar(&config.Dir, "config-dir", "", "")
	exec.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	for _, path := range []*string{&config.Config, &config.Dir, &common.RootDir} {
		*path = within(dir, *path)
	}
	files, err := kubeletconfig.Load(config)
	if err != nil {
		return nil, err
	}
	p := &Podexec{RootDir: common.RootDir, Listen: common.Listen}
	if p.Settings, err = exec.Settle(files); err != nil {
		return nil, err
	}
	for _, path := range []*string{
		&p.Settings.Kubeconfig, &p.Settings.BootstrapKubeconfig, &p.Settings.CertDir, &p.Settings.TLSCertFile, &p.Settings.Authentication.ClientCAFile,
	} {
		*path = within(dir, *path)
	}
	if p.Settings.CertDir == "" {
		p.Settings.CertDir = filepath.Join(p.RootDir, "pki")
	}
	p.Node, err = common.NodeName()
	return p, err
}

// within returns the path as seen from the directory; an empty one stays empty.
func within(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// listener returns the process that listens on a Unix socket.
func listener(socket string) (pid int, err error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.(*net.UnixConn).SyscallConn() //nolint:forcetypeassert // It was dialed as one.
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	if controlErr := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); controlErr != nil {
		return 0, controlErr
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("find the process that listens on %s: %w", socket, err)
	case peer.Pid == 0:
		return 0, errors.New("the process can't be found; it may run in a container")
	case peer.Pid == 1 && os.Getpid() != 1:
		return heir(socket)
	}
	return int(peer.Pid), nil
}

// heir returns the process that has a listening socket from systemd, which the kernel names as the listener: podexecd's
// socket may be activated.
func heir(socket string) (pid int, err error) {
	inode := ""
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return 0, err
	}
	const accepts = "00010000" // the flag of a listening socket
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 8 && fields[3] == accepts && fields[7] == socket {
			inode = fields[6]
		}
	}
	if inode == "" {
		return 0, fmt.Errorf("no process of this network namespace listens on %s", socket)
	}
	files, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		target, err := os.Readlink(file)
		if err != nil || target != "socket:["+inode+"]" {
			continue
		}
		if pid, err := strconv.Atoi(strings.Split(file, "/")[2]); err == nil && pid != 1 {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("no process has taken %s over from systemd", socket)
}
