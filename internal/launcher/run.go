package launcher

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/daemon/process"
	"github.com/podstream/podstream/internal/daemon/systemd"
)

// defaultOOMScoreAdj is the kubelet's, and that of the daemons' units.
const defaultOOMScoreAdj = -999

// Run runs the daemons for a kubelet's command line until ctx ends, and returns the exit code, which is the kubelet's: 1 for
// a mistake in flags or configuration, before anything is started, and for any other failure.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	dir, err := os.Getwd()
	if err != nil {
		return failed(stderr, err)
	}
	f := newFlagSet()
	_, err = f.parse(args)
	switch {
	case isHelp(err):
		_, _ = io.WriteString(stdout, Usage())
		return 0
	case err != nil:
		return failed(stderr, fmt.Errorf("failed to parse kubelet flag: %w", err))
	case f.version.text() != "":
		_, _ = io.WriteString(stdout, f.version.text())
		return 0
	}
	commands, err := Split(args, dir)
	if err == nil {
		err = Check(args)
	}
	if err != nil {
		return failed(stderr, err)
	}
	out := &sink{w: stderr}
	log, err := f.common.Logger(out)
	if err != nil {
		return failed(stderr, err)
	}
	if err := launch(ctx, commands, out, log.With("daemon", "kubelet")); err != nil {
		return failed(stderr, err)
	}
	return 0
}

func failed(stderr io.Writer, err error) int {
	// One error per line: files may have several.
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintf(stderr, "kubelet: %s\n", line)
	}
	return 1
}

// launch starts the daemons as children, and keeps them running until ctx ends.
func launch(ctx context.Context, c *Commands, out *sink, log *slog.Logger) error {
	programs, err := findPrograms()
	if err != nil {
		return err
	}
	unit := systemd.New(systemd.Config{Alive: func(context.Context) error { return nil }, Logger: log})
	setOOMScoreAdj(c, log)
	environ, more := environment(os.Environ())
	attr, lesser := reduced()
	owner := os.Geteuid()
	if lesser {
		owner = podconfigdID
	} else {
		log.Warn("podconfigd runs as this user: CAP_DAC_READ_SEARCH can't be given to another one", "uid", owner)
	}
	prepare := func() error { return makeDirs(c, socketDir, owner) }
	if err := prepare(); err != nil {
		return err
	}
	children := []*child{
		{name: "podconfigd", args: slices.Concat(c.Podconfigd, more.podconfigd), attr: attr},
		{name: "podexecd", args: slices.Concat(c.Podexecd, more.podexecd)},
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, unix.SIGHUP)
	defer signal.Stop(hup)
	var running sync.WaitGroup
	for _, d := range children {
		d.path, d.env, d.prepare = filepath.Join(programs, d.name), environ, prepare
		d.output, d.clock, d.log = &lines{daemon: d.name, to: out}, clock.RealClock{}, log
		running.Go(func() { d.run(ctx) })
	}
	running.Go(func() { unit.Run(ctx) })
	log.Info("the kubelet's launcher is up", "version", process.KubeletVersion, "root_dir", c.RootDir, "programs", programs)
	for done := false; !done; {
		select {
		case <-ctx.Done():
			done = true
		case <-hup:
			children[0].signal(syscall.SIGHUP)
		}
	}
	running.Wait()
	log.Info("the kubelet's launcher is down; the pods keep running")
	return nil
}

func setOOMScoreAdj(c *Commands, log *slog.Logger) {
	adj := defaultOOMScoreAdj
	if c.OOMScoreAdj != nil {
		adj = *c.OOMScoreAdj
	}
	if err := process.SetOOMScoreAdj(adj); err != nil {
		log.Warn("--oom-score-adj can't be set, which needs CAP_SYS_RESOURCE", "oom_score_adj", adj, "error", err)
	}
}

// extra are the flags of the daemons' own that the environment has, under the names of the units' variables.
type extra struct{ podconfigd, podexecd []string }

// environment returns the daemons' environment, and their extra flags. Variables that change how a Go program, or the
// dynamic linker, works are left out, and so are systemd's.
func environment(environ []string) ([]string, extra) {
	var keep []string
	var more extra
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		switch {
		case name == "PODCONFIGD_FLAGS":
			more.podconfigd = strings.Fields(value)
		case name == "PODEXECD_FLAGS":
			more.podexecd = strings.Fields(value)
		case strings.HasPrefix(name, "LD_"), slices.Contains(systemdVariables, name):
		default:
			keep = append(keep, variable)
		}
	}
	return keep, more
}

var systemdVariables = []string{
	"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "MAINPID", "INVOCATION_ID",
	"KUBELET_KUBECONFIG_ARGS", "KUBELET_CONFIG_ARGS", "KUBELET_KUBEADM_ARGS", "KUBELET_EXTRA_ARGS",
}
