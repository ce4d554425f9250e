package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/daemon/process"
	"github.com/podstream/podstream/internal/daemon/systemd"
	"github.com/podstream/podstream/internal/kubeletconfig"
)

const (
	// defaultOOMScoreAdj is the kubelet's, and that of the daemons' units.
	defaultOOMScoreAdj = -999
	// groupTime is the time that the daemons have to end by themselves under systemd, which by default sends SIGTERM to all
	// processes of a unit. A second SIGTERM would end them at once.
	groupTime = 2 * time.Second
)

// Launcher runs both daemons.
type Launcher struct {
	// Programs is the directory of the daemons' programs. Empty: that of this program, or /usr/local/bin, or /usr/bin.
	Programs string
	// Sockets is the directory of the daemons' sockets. Empty: /run/podstream.
	Sockets string
	// Environ is the environment of the daemons, less what they must not have. See environment.
	Environ        []string
	Stdout, Stderr io.Writer
}

// Run runs the daemons for a kubelet's command line until ctx ends, and returns the exit code, which is the kubelet's: 1 for
// a mistake in flags or configuration, before anything is started, and for any other failure.
func (l *Launcher) Run(ctx context.Context, args []string) int {
	f := newFlagSet()
	_, err := f.parse(args)
	switch {
	case isHelp(err):
		_, _ = io.WriteString(l.Stdout, Usage())
		return 0
	case err != nil:
		return l.failed(fmt.Errorf("failed to parse kubelet flag: %w", err))
	case f.version.text() != "":
		_, _ = io.WriteString(l.Stdout, f.version.text())
		return 0
	}
	dir, err := os.Getwd()
	if err != nil {
		return l.failed(err)
	}
	commands, err := Split(args, dir)
	if err != nil {
		return l.failed(err)
	}
	defaults, err := Check(commands)
	if err != nil {
		return l.failed(err)
	}
	commands.Podexecd = append(commands.Podexecd, defaults...)
	if l.Sockets != "" {
		commands.addSockets(l.Sockets)
	}
	children, err := l.children(commands)
	if err != nil {
		return l.failed(err)
	}
	if f.checkConfig {
		err = l.checkConfig(ctx, children)
	} else {
		err = l.launch(ctx, f.common.LogFormat, commands, children)
	}
	if err != nil {
		return l.failed(err)
	}
	return 0
}

func (l *Launcher) failed(err error) int {
	// One error per line: files may have several.
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintf(l.Stderr, "kubelet: %s\n", line)
	}
	return 1
}

// children returns podconfigd and podexecd, with their programs, flags and environment.
func (l *Launcher) children(c *Commands) ([]*child, error) {
	programs := l.Programs
	if programs == "" {
		var err error
		if programs, err = findPrograms(); err != nil {
			return nil, err
		}
	}
	environ, more := environment(l.Environ)
	children := []*child{
		{name: "podconfigd", args: slices.Concat(c.Podconfigd, more.podconfigd)},
		{name: "podexecd", args: slices.Concat(c.Podexecd, more.podexecd)},
	}
	for _, d := range children {
		d.path, d.env, d.begun = filepath.Join(programs, d.name), environ, make(chan struct{})
	}
	return children, nil
}

// checkConfig has both daemons print their effective configuration.
func (l *Launcher) checkConfig(ctx context.Context, children []*child) error {
	var problems []error
	for _, d := range children {
		cmd := exec.CommandContext(ctx, d.path, append(slices.Clone(d.args), "--check-config")...)
		cmd.Env, cmd.Stdout, cmd.Stderr = d.env, l.Stdout, l.Stderr
		fmt.Fprintf(l.Stdout, "# %s\n", d.name)
		if err := cmd.Run(); err != nil {
			problems = append(problems, fmt.Errorf("%s can't start with this configuration: %w", d.name, err))
		}
	}
	return errors.Join(problems...)
}

// launch starts the daemons as children, and keeps them running until ctx ends.
func (l *Launcher) launch(ctx context.Context, format string, c *Commands, children []*child) error {
	out := &sink{w: l.Stderr}
	log := newLog(out, format)
	// Ready when both were started, as the kubelet is. A daemon that ends again and again is no reason to restart the other one.
	begun := func(ctx context.Context) error {
		for _, d := range children {
			select {
			case <-d.begun:
			case <-ctx.Done():
				return fmt.Errorf("%s can't be started", d.name)
			}
		}
		return nil
	}
	unit := systemd.New(systemd.Config{Alive: begun, Logger: log})
	setOOMScoreAdj(c, log)
	attr, owner, ok := reduced()
	if !ok {
		log.Warn("podconfigd runs as this user: CAP_DAC_READ_SEARCH can't be given to another one", "uid", owner.uid)
	}
	sockets := l.Sockets
	if sockets == "" {
		sockets = socketDir
	}
	prepare := func() error { return makeDirs(c, sockets, owner) }
	// First: prepare would change the owner of files that they use.
	if err := awaitOthers(ctx, sockets, othersTime); err != nil {
		return err
	}
	if err := prepare(); err != nil {
		return err
	}
	children[0].attr, children[0].confined = attr, true
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, unix.SIGHUP)
	defer signal.Stop(hup)
	stop, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var running, notifying sync.WaitGroup
	for _, d := range children {
		d.prepare, d.output, d.clock, d.log = prepare, &lines{daemon: d.name, to: out}, clock.RealClock{}, log
		running.Go(func() { d.run(ctx, stop) })
	}
	notifying.Go(func() { unit.Run(ctx) })
	log.Info("the kubelet's launcher is up", "version", kubeletconfig.Version, "root_dir", c.RootDir)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-hup:
			children[0].signal(unix.SIGHUP)
		}
	}
	timer := time.AfterFunc(l.groupTime(), cancel)
	running.Wait()
	timer.Stop()
	notifying.Wait()
	log.Info("the kubelet's launcher is down; the pods keep running")
	return nil
}

// groupTime returns the time between the end of Run's context and the daemons' SIGTERM.
func (l *Launcher) groupTime() time.Duration {
	// systemd sets it for each start of a unit.
	if slices.ContainsFunc(l.Environ, func(v string) bool { return strings.HasPrefix(v, "INVOCATION_ID=") }) {
		return groupTime
	}
	return 0
}

func newLog(w io.Writer, format string) *slog.Logger {
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, nil)).With("daemon", "kubelet")
	}
	return slog.New(slog.NewTextHandler(w, nil)).With("daemon", "kubelet")
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
