package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
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
	// firstDescriptor is the first one after standard input, output and error.
	firstDescriptor = 3
)

// errLogClosed ends the launcher: the unit's manager, which starts it again, also opens its log again.
var errLogClosed = errors.New("the log can't be written any more: standard error is closed")

// Launcher runs both daemons.
type Launcher struct {
	// Programs is the directory of the daemons' programs. Empty: that of this program, or /usr/local/bin, or /usr/bin.
	Programs string
	// Sockets is the directory of the daemons' sockets. Empty: /run/podstream.
	Sockets string
	// Environ is the environment of the daemons, less what they must not have. See environment.
	Environ        []string
	Stdout, Stderr io.Writer

	// watchdog is watchdogTime, or a test's.
	watchdog time.Duration
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
		if err := checkSocketPath(l.Sockets); err != nil {
			return l.failed(err)
		}
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
	// One error per line: files may have several. Both daemons may find the same one.
	printed := map[string]bool{}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !printed[line] {
			fmt.Fprintf(l.Stderr, "kubelet: %s\n", line)
		}
		printed[line] = true
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
		d.path, d.env = filepath.Join(programs, d.name), environ
		d.ready, d.ended = make(chan struct{}), make(chan struct{})
	}
	return children, nil
}

// checkConfig has both daemons print their effective configuration.
func (l *Launcher) checkConfig(ctx context.Context, children []*child) error {
	var problems []error
	if l.Sockets != "" {
		_, owner, _ := reduced()
		if err := checkSocketDir(l.Sockets, owner); err != nil {
			problems = append(problems, err)
		}
	}
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
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	out := &sink{w: l.Stderr, closed: func() { end(errLogClosed) }}
	log := newLog(out, format)
	ownDescriptors(log)
	unit := systemd.New(systemd.Config{Alive: func(context.Context) error { return alive(children) }, Logger: log})
	setOOMScoreAdj(c, log)
	attr, owner, ok := reduced()
	if !ok {
		log.Warn("podconfigd runs as this user: CAP_DAC_READ_SEARCH can't be given to another one", "uid", owner.uid)
	}
	run := &runDir{path: cmp.Or(l.Sockets, socketDir), owner: owner, log: log}
	// First: the rest would change the owner of files that they use.
	warning, err := awaitOthers(ctx, run.path, othersTime)
	if err != nil {
		return err
	}
	if warning != "" {
		log.Warn("podconfigd's socket is in use, and podexecd starts all the same", "error", warning)
	}
	children[0].prepare = func() error { return errors.Join(makeStore(c, owner), run.forPodconfigd()) }
	children[1].prepare = func() error { return errors.Join(makeRoot(c), run.forPodexecd()) }
	// podexecd's first: podconfigd's user could otherwise make podexecd's files.
	for _, d := range slices.Backward(children) {
		d.notices = filepath.Join(run.path, noticesName, noticesOf[d.name])
		if err := d.prepare(); err != nil {
			return err
		}
	}
	only, err := run.only()
	if err != nil {
		return err
	}
	defer only.close()
	children[0].attr, children[0].confined = attr, true
	hup, closed := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(hup, unix.SIGHUP)
	defer signal.Stop(hup)
	// The launcher ends in order, not by this signal, which some units take for success. That is so until the process ends.
	signal.Notify(closed, unix.SIGPIPE)
	var running sync.WaitGroup
	for _, d := range children {
		d.output, d.clock, d.log = &lines{daemon: d.name, to: out}, clock.RealClock{}, log
		d.watchdog = cmp.Or(l.watchdog, watchdogTime)
		d.changed = func() { unit.SetStatus(statusOf(children)) }
		var stopping context.Context
		stopping, d.stop = context.WithCancel(context.WithoutCancel(ctx))
		running.Go(func() { d.run(ctx, stopping) })
	}
	running.Go(func() {
		awaitReady(ctx, children)
		unit.Run(ctx)
	})
	log.Info("the kubelet's launcher is up", "version", kubeletconfig.Version, "root_dir", c.RootDir)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-hup:
			children[0].signal(unix.SIGHUP)
		}
	}
	l.stop(children)
	running.Wait()
	log.Info("the kubelet's launcher is down; the pods keep running")
	if context.Cause(ctx) == errLogClosed { //nolint:errorlint // It is never wrapped.
		return errLogClosed
	}
	return nil
}

// stop stops the daemons: podexecd first, which so loses no stream before its end.
func (l *Launcher) stop(children []*child) {
	alone, cancel := context.WithTimeout(context.Background(), l.groupTime())
	defer cancel()
	for _, d := range slices.Backward(children) {
		select {
		case <-d.ended:
		case <-alone.Done():
		}
		d.stop()
		<-d.ended
	}
}

// awaitReady waits until all daemons were ready, or ctx ends.
func awaitReady(ctx context.Context, children []*child) {
	for _, d := range children {
		select {
		case <-d.ready:
		case <-ctx.Done():
		}
	}
}

// ownDescriptors keeps the descriptors that the launcher was started with from the daemons: they would be open in podconfigd,
// which has less rights.
func ownDescriptors(log *slog.Logger) {
	err := unix.CloseRange(firstDescriptor, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	// Linux before 5.11 can't.
	if err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) {
		log.Warn("the daemons may inherit open files", "error", err)
	}
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
