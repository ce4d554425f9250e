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

	"github.com/podstream/podstream/internal/daemon/process"
)

// versionFlag asks for the version instead of the daemon.
const versionFlag = "version"

// NewFlagSet makes the daemon's set of flags, with those of f in it; the daemon adds its own. Help begins with the sentence about,
// and goes to stdout.
func (f *Flags) NewFlagSet(name, about string, stdout io.Writer) *pflag.FlagSet {
	fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
	fs.SetOutput(stdout)
	fs.SortFlags = false
	fs.Usage = func() {
		// There is nobody left to tell that stdout can't be written.
		_, _ = fmt.Fprintf(stdout, "%s\n\nUsage:\n  %s [flags]\n\nFlags:\n%s", about, name, fs.FlagUsages())
	}
	f.AddFlags(fs, name)
	fs.Bool(versionFlag, false, "print the version and exit")
	return fs
}

// Parse understands args, with a set that NewFlagSet has made, and checks what they give to f. It returns pflag.ErrHelp if they
// ask for help or the version, which it prints.
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

// Check says what is wrong with the flags, as far as they alone tell: files aren't read, and addresses aren't tried.
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

// checkListen refuses what can't be listened on, whatever the machine.
func checkListen(address string) error {
	if hostPort, ok := strings.CutPrefix(address, "tcp://"); ok {
		if _, _, err := net.SplitHostPort(hostPort); err != nil {
			return fmt.Errorf("want tcp://host:port: %w", err)
		}
		return nil
	}
	path, ok := strings.CutPrefix(address, "unix://")
	// The kernel wants a zero byte behind the path.
	const longest = len(syscall.RawSockaddrUnix{}.Path) - 1
	switch {
	case !ok || !filepath.IsAbs(path):
		return errors.New("want unix:///path or tcp://host:port")
	case len(path) > longest:
		return fmt.Errorf("the path has %d bytes; the kernel takes at most %d", len(path), longest)
	}
	return nil
}
