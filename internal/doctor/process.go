package doctor

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/kubeletconfig"
	"github.com/podstream/podstream/internal/kubeletdir"
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
func ParsePodexec(args []string, work string) (*Podexec, error) {
	var common daemon.Flags
	var exec execconfig.Flags
	var config kubeletconfig.Paths
	fs := pflag.NewFlagSet("podexecd", pflag.ContinueOnError)
	fs.ParseErrorsAllowlist.UnknownFlags = true
	common.AddFlags(fs, "podexecd")
	var dir string
	fs.StringVar(&dir, "kubelet-dir", kubeletdir.Default, "")
	fs.StringVar(&config.Config, "config", "", "")
	fs.StringVar(&config.Dir, "config-dir", "", "")
	exec.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	for _, path := range []*string{&config.Config, &config.Dir, &common.RootDir, &dir} {
		*path = within(work, *path)
	}
	files, err := kubeletconfig.Load(config)
	if err != nil {
		return nil, err
	}
	p := &Podexec{RootDir: common.RootDir, KubeletDir: dir, Listen: common.Listen}
	if p.Settings, err = exec.Settle(files); err != nil {
		return nil, err
	}
	for _, path := range []*string{
		&p.Settings.Kubeconfig, &p.Settings.BootstrapKubeconfig, &p.Settings.CertDir, &p.Settings.TLSCertFile, &p.Settings.Authentication.ClientCAFile,
	} {
		*path = within(work, *path)
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
