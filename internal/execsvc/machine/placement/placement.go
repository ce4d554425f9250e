package placement

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"strconv"
	"time"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/manager"
	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
)

const (
	// period is the kubelet's.
	period = time.Minute
	// passes is how often the root cgroup is read at each time: a process that forks meanwhile has children there.
	passes = 10
)

// devices is the v1 hierarchy in which only the runtime makes cgroups.
const devices = "devices"

// Config configures a Placer.
type Config struct {
	// KubeletCgroups is the cgroup of this process, and SystemCgroups that of the processes in Root. Empty: they stay.
	KubeletCgroups, SystemCgroups string
	// Root is the cgroup whose processes move to SystemCgroups. Empty: /.
	Root string
	// Clock is the system's if nil.
	Clock clock.WithTicker
	// Logger receives a line when a process can't be moved. Nil discards it.
	Logger *slog.Logger
}

// Placer moves processes to cgroups.
type Placer struct {
	cfg                   Config
	kubelet, system, root cgroups.Manager
}

// New returns a Placer. It changes nothing yet.
func New(cfg Config) (*Placer, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Placer{cfg: cfg}
	var err error
	if p.root, err = open(path.Join("/", cfg.Root)); err != nil {
		return nil, err
	}
	if cfg.KubeletCgroups != "" {
		if p.kubelet, err = open(cfg.KubeletCgroups); err != nil {
			return nil, fmt.Errorf("kubeletCgroups: %w", err)
		}
	}
	if cfg.SystemCgroups != "" {
		if p.system, err = open(cfg.SystemCgroups); err != nil {
			return nil, fmt.Errorf("systemCgroups: %w", err)
		}
	}
	return p, nil
}

// open returns the cgroup, which may not exist.
func open(name string) (cgroups.Manager, error) {
	return manager.New(&cgroups.Cgroup{Path: path.Join("/", name), Resources: &cgroups.Resources{SkipDevices: true}})
}

// Run moves the processes at once, and then every minute until ctx ends.
func (p *Placer) Run(ctx context.Context) {
	ticker := p.cfg.Clock.NewTicker(period)
	defer ticker.Stop()
	for reason := ""; ; {
		err := p.Place()
		if err != nil && err.Error() != reason {
			p.cfg.Logger.Warn("processes aren't in their cgroup; the next attempt is in a minute", "error", err)
		}
		reason = ""
		if err != nil {
			reason = err.Error()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// Place moves the processes that aren't in their cgroup.
func (p *Placer) Place() error {
	var errs []error
	if p.system != nil {
		errs = append(errs, p.gather())
	}
	if p.kubelet != nil && !within(p.kubelet, p.cfg.KubeletCgroups) {
		if err := p.kubelet.Apply(os.Getpid()); err != nil {
			errs = append(errs, fmt.Errorf("kubeletCgroups: move podexecd to %s: %w", p.cfg.KubeletCgroups, err))
		}
	}
	return errors.Join(errs...)
}

// within reports whether this process is in the cgroup, in each of its hierarchies.
func within(m cgroups.Manager, name string) bool {
	is, err := cgroups.ParseCgroupFile("/proc/self/cgroup")
	if err != nil {
		return false
	}
	for controller := range m.GetPaths() {
		if controller != devices && is[controller] != path.Join("/", name) {
			return false
		}
	}
	return true
}

// gather moves the processes of the root cgroup to SystemCgroups. The error is that of the last pass.
func (p *Placer) gather() error {
	var err error
	for range passes {
		pids, failed := processes(p.root)
		if failed != nil {
			return fmt.Errorf("systemCgroups: list the processes of the root cgroup: %w", failed)
		}
		moved := 0
		err = nil
		for _, pid := range pids {
			if !movable(pid) {
				continue
			}
			moved++
			if failed := p.system.Apply(pid); failed != nil && !errors.Is(failed, unix.ESRCH) {
				err = fmt.Errorf("systemCgroups: move the process %d to %s: %w", pid, p.cfg.SystemCgroups, failed)
			}
		}
		if moved == 0 {
			return nil
		}
	}
	return err
}

// processes returns the processes of a cgroup. The library reads them in the hierarchy of devices.
func processes(m cgroups.Manager) ([]int, error) { return cgroups.GetPids(m.Path("memory")) }

// movable reports whether a process is neither the first one nor a thread of the kernel, which has no program.
func movable(pid int) bool {
	if pid == 1 {
		return false
	}
	_, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	return !errors.Is(err, fs.ErrNotExist)
}
