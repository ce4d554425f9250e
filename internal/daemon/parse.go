package daemon

import (
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/podstream/podstream/internal/daemon/process"
)

// versionFlag prints the version instead of starting the daemon.
const versionFlag = "version"

// NewFlagSet returns the daemon's flag set with the flags of f; the daemon adds its own. Help begins with the
// sentence about, and goes to stdout.
func (f *Flags) NewFlagSet(name, about string, stdout io.Writer) *pflag.FlagSet {
	fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
	fs.SetOutput(stdout)
	fs.SortFlags = false
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc) // The kubelet's flags may have underscores.
	fs.Usage = func() {
		// An error of stdout can't be reported anywhere.
		_, _ = fmt.Fprintf(stdout, "%s\n\nUsage:\n  %s [flags]\n\nFlags:\n%s", about, name, fs.FlagUsages())
	}
	f.AddFlags(fs, name)
	fs.Bool(versionFlag, false, "print the version and exit")
	return fs
}

// Parse parses args with a set of NewFlagSet, and checks the values of f. It returns pflag.ErrHelp for help or the
// version, which it prints.
func (f *Flags) Parse(fs *pflag.FlagSet, args []string) error {
	if err := fs.Parse(args); err != nil {
		return err
	}
	if asked, err := fs.GetBool(versionFlag); err != nil {
		return err
	} else if asked {
		if _, err := io.WriteString(fs.Output(), process.VersionText(fs.Name(), process.Version())); err != nil {
			return fmt.Errorf("print the version: %w", err)
		}
		return pflag.ErrHelp
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: %s takes only flags", fs.Arg(0), fs.Name())
	}
	return f.Check()
}

// Check returns an error if the flags are invalid. It reads no files, and doesn't try addresses.
func (f *Flags) Check() error {
	for _, address := range f.Listen {
		if err := checkListen(address); err != nil {
			return fmt.Errorf("--listen %s: %w", address, err)
		}
	}
	if f.MetricsAddress != "" {
		if _, _, err := net.SplitHostPort(f.MetricsAddress); err != nil {
			return fmt.Errorf("--metrics-address: want host:port: %w", err)
		}
	}
	if _, err := f.Logger(io.Discard); err != nil {
		return err
	}
	_, _, err := f.Access()
	return err
}

// checkListen returns an error for an address that is invalid on every machine.
func checkListen(address string) error {
	if hostPort, ok := strings.CutPrefix(address, "tcp://"); ok {
		if _, _, err := net.SplitHostPort(hostPort); err != nil {
			return fmt.Errorf("want tcp://host:port: %w", err)
		}
		return nil
	}
	path, ok := strings.CutPrefix(address, "unix://")
	// The kernel needs a zero byte after the path.
	const longest = len(syscall.RawSockaddrUnix{}.Path) - 1
	switch {
	case !ok || !filepath.IsAbs(path):
		return errors.New("want unix:///path or tcp://host:port")
	case len(path) > longest:
		return fmt.Errorf("the path has %d bytes; the kernel takes at most %d", len(path), longest)
	}
	return nil
}
