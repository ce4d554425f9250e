package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/podstream/podstream/internal/daemon/systemd"
	"github.com/podstream/podstream/internal/kubeletconfig"
)

// checkTimeout bounds the check of a command line.
const checkTimeout = time.Minute

const help = `kubelet takes the kubelet's command line, and runs podconfigd and podexecd with it.

Usage:
  kubelet [flags]

The flags are the kubelet's; "podexecd --help" and "podconfigd --help" describe them. kubelet --root-dir has the default
` + DefaultRootDir + `. podexecd has its state there, and podconfigd in the directory podconfigd below it.
`

// Launcher runs both programs.
type Launcher struct {
	// Dir is where the programs are. Empty: the directory of this program, or else PATH.
	Dir string
	// RunDir is the directory of both sockets. Empty: the programs' default, /run/podstream.
	RunDir         string
	Stdout, Stderr io.Writer
}

// Run runs both programs until ctx ends, and returns the exit code: 1 for a failure, as the kubelet.
func (l *Launcher) Run(ctx context.Context, args []string) int {
	commands, err := Split(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		_, _ = io.WriteString(l.Stdout, help)
		return 0
	case err != nil:
		fmt.Fprintf(l.Stderr, "kubelet: %v\n", err)
		return 1
	case commands.Version != "" && commands.Version != "false":
		return l.version(commands.Version)
	}
	log := slog.New(slog.NewTextHandler(l.Stderr, nil))
	if l.RunDir != "" {
		commands.addSockets(l.RunDir)
	}
	children := []*child{
		{name: "podconfigd", args: commands.Podconfigd, stdout: l.Stdout, stderr: l.Stderr, log: log},
		{name: "podexecd", args: commands.Podexecd, stdout: l.Stdout, stderr: l.Stderr, log: log},
	}
	// Both are checked before one starts, so that all mistakes are printed, and nothing runs with half of a configuration.
	ok := true
	for _, c := range children {
		if c.path, err = l.find(c.name); err == nil {
			err = l.check(ctx, c, commands.CheckConfig)
		}
		if err != nil {
			fmt.Fprintf(l.Stderr, "kubelet: %v\n", err)
			ok = false
		}
	}
	switch {
	case !ok:
		return 1
	case commands.CheckConfig:
		return 0
	}
	notifier := systemd.New(systemd.Config{Logger: log, Alive: func(context.Context) error { return nil }})
	var all sync.WaitGroup
	for _, c := range children {
		all.Go(func() { c.keep(ctx) })
	}
	all.Go(func() { notifier.Run(ctx) })
	all.Wait()
	return 0
}

// version prints the version of the kubelet that this program stands for.
func (l *Launcher) version(value string) int {
	switch value {
	case "true":
		fmt.Fprintf(l.Stdout, "Kubernetes %s\n", kubeletconfig.Version)
	case "raw":
		fmt.Fprintf(l.Stdout, "version.Info{Major:%q, Minor:%q, GitVersion:%q}\n",
			strings.Split(kubeletconfig.Minor, ".")[0], strings.Split(kubeletconfig.Minor, ".")[1], kubeletconfig.Version)
	default:
		fmt.Fprintf(l.Stderr, "kubelet: --version=%s: want true, false or raw\n", value)
		return 1
	}
	return 0
}

// find returns the path of a program.
func (l *Launcher) find(name string) (string, error) {
	dir := l.Dir
	if dir == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("find %s: %w", name, err)
		}
		dir = filepath.Dir(self)
	}
	path := filepath.Join(dir, name)
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		return path, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is neither in %s nor in PATH: %w", name, dir, err)
	}
	return filepath.Abs(path)
}

// check has the program check its flags and configuration files, and print the mistakes; with verbose also the effective
// configuration.
func (l *Launcher) check(ctx context.Context, c *child, verbose bool) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.path, append([]string{"--check-config"}, c.args...)...)
	cmd.Env, cmd.Stderr = environment(), l.Stderr
	if verbose {
		fmt.Fprintf(l.Stdout, "# %s %s\n", c.name, strings.Join(c.args, " "))
		cmd.Stdout = l.Stdout
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s can't start with these flags and this configuration: %w", c.name, err)
	}
	return nil
}
