package cgroup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/cgroups"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/failpoint"
)

// The drivers, as KubeletConfiguration has them.
const (
	Cgroupfs = "cgroupfs"
	Systemd  = "systemd"
)

// ErrBusy is what the kernel, or caution, doesn't allow at this moment, and may in the next: a limit of memory below what is in use,
// or the removal of a cgroup whose processes haven't ended. The caller tries again.
var ErrBusy = errors.New("the cgroup is busy")

// Config says what a Manager makes. Its zero value makes nothing.
type Config struct {
	// PerQoS is cgroupsPerQOS: false for a Manager that does nothing and has no parent for any pod.
	PerQoS bool
	// Root is cgroupRoot: kubepods is made in it. Empty means "/". It is made if it isn't there.
	Root string
	// Driver is Cgroupfs or Systemd, the same as the runtime's. Empty means Cgroupfs.
	Driver string
	// Allocatable is what all pods may have together: the node's capacity, less what is reserved where enforceNodeAllocatable names
	// pods. cpu, memory, pid and hugepages-<size> count; what isn't in it isn't limited, and cpu keeps the kernel's share.
	Allocatable v1.ResourceList
	// PodPidsLimit is podPidsLimit: the processes of one pod. Zero or less means any number.
	PodPidsLimit int64
	// NoCPUQuota is cpuCFSQuota: false, where cpu limits are not enforced.
	NoCPUQuota bool
	// CPUQuotaPeriod is cpuCFSQuotaPeriod. Zero means 100 ms.
	CPUQuotaPeriod time.Duration
	// ReserveMemory is memoryReservationPolicy: TieredReservation, for cgroup v2: memory.min is what guaranteed pods ask for,
	// memory.low what burstable ones do. v1 has neither, and ignores it.
	ReserveMemory bool
	// Logger gets a line where New leaves something to Balance. Nil discards.
	Logger *slog.Logger
}

// Manager makes, changes and removes the cgroups of pods.
type Manager struct {
	off         bool
	driver      driver
	layout      layout
	settings    settings
	allocatable v1.ResourceList

	tiers tiers

	mu sync.Mutex
	// applied is what each pod's cgroup was last given, by its name.
	applied map[string]given
}

// given is a pod's cgroup, and what it was given.
type given struct {
	group     group
	resources cgroups.Resources
}

// New makes kubepods and its tiers, or takes over those that are there.
func New(cfg Config) (*Manager, error) {
	if !cfg.PerQoS {
		return &Manager{off: true}, nil
	}
	switch cfg.Driver {
	case Cgroupfs, Systemd, "":
	default:
		return nil, fmt.Errorf("cgroup driver %q: it is %s or %s", cfg.Driver, Cgroupfs, Systemd)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	v2 := cgroups.IsCgroup2UnifiedMode()
	m := &Manager{
		driver:      driver{systemd: cfg.Driver == Systemd, v2: v2},
		layout:      newLayout(cfg.Root),
		allocatable: cfg.Allocatable,
		applied:     map[string]given{},
		settings: settings{
			v2: v2, podPids: cfg.PodPidsLimit, noQuota: cfg.NoCPUQuota, reserve: cfg.ReserveMemory,
			period: uint64(max(cfg.CPUQuotaPeriod.Microseconds(), 0)),
		},
	}
	if m.settings.period == 0 {
		m.settings.period = defaultPeriod
	}
	if err := m.makeTiers(cfg.Logger); err != nil {
		return nil, err
	}
	return m, nil
}

// Parent is the cgroup_parent of the pod's sandbox: a path (/kubepods/burstable/pod<uid>), or for systemd nested slices, as the
// kubelet gives them to the runtime. It is empty if the Manager does nothing.
func (m *Manager) Parent(p *v1.Pod) string {
	if m.off {
		return ""
	}
	return m.driver.path(m.layout.pod(p.UID, criconfig.QOSClass(p)))
}

// Ensure makes the pod's cgroup, or gives it the room that the pod asks for now. It raises limits, and lowers none that its
// containers may still have. It may be called at each sync, before containers are started or changed: if nothing changed, it looks
// whether the cgroup is there, and no more.
func (m *Manager) Ensure(p *v1.Pod) error {
	if err := m.apply(p, widen); err != nil {
		return fmt.Errorf("make the pod's cgroup: %w", err)
	}
	return nil
}

// SetPod gives the pod's cgroup the limits that the pod asks for now, lower ones too. It comes after its containers were given theirs,
// and like Ensure costs next to nothing if nothing changed. The error is ErrBusy if more memory is in use than is asked for; the
// other limits are set then.
func (m *Manager) SetPod(p *v1.Pod) error {
	exactly := func(want, _ cgroups.Resources) cgroups.Resources { return want }
	if err := m.apply(p, exactly); err != nil {
		return fmt.Errorf("set the limits of the pod's cgroup: %w", err)
	}
	return nil
}

// apply brings the pod's cgroup to what next makes of what the pod asks for and what there is.
func (m *Manager) apply(p *v1.Pod, next func(want, have cgroups.Resources) cgroups.Resources) error {
	if m.off {
		return nil
	}
	if err := m.check(p.UID); err != nil {
		return err
	}
	n, want := m.layout.pod(p.UID, criconfig.QOSClass(p)), m.settings.pod(p)
	known, ok := m.known(n)
	if !ok {
		g, err := m.driver.open(n)
		if err != nil {
			return err
		}
		known.group = g
	}
	g := known.group
	switch there := g.exists(); {
	case there && ok:
		want = next(want, known.resources)
		if reflect.DeepEqual(want, known.resources) {
			return nil
		}
	case there:
		// Who made it, and with what, was forgotten in a restart.
		have, err := g.limits()
		if err != nil {
			return err
		}
		want = next(want, have)
	default:
		if err := g.create(); err != nil {
			return err
		}
		failpoint.Reached(failpoint.CgroupMade)
	}
	// What an attempt that fails has done isn't known.
	m.forget(n)
	if err := g.set(want); err != nil {
		return err
	}
	m.remember(n, given{group: g, resources: want})
	return nil
}

// Remove kills what is left in the pod's cgroup, of whatever class it is, waits for it to end, and removes the cgroup. A pod that has
// none is no error. The error is ErrBusy if something was still there when ctx ended.
func (m *Manager) Remove(ctx context.Context, uid types.UID) error {
	if m.off {
		return nil
	}
	if err := m.check(uid); err != nil {
		return err
	}
	if failpoint.Active(failpoint.LeaveCgroup) {
		return nil
	}
	var errs []error
	for _, n := range m.layout.everywhere(uid) {
		m.forget(n)
		g, err := m.driver.open(n)
		if err == nil {
			err = g.remove(ctx)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("remove the cgroup %s: %w", m.driver.path(n), err))
		}
	}
	return errors.Join(errs...)
}

// Usage is the memory that the pod uses now, in bytes, with what could be reclaimed. The error is fs.ErrNotExist if it has no cgroup.
func (m *Manager) Usage(p *v1.Pod) (int64, error) {
	if m.off {
		return 0, errors.New("pods have no cgroups of their own: cgroupsPerQOS is off")
	}
	if err := m.check(p.UID); err != nil {
		return 0, err
	}
	g, err := m.driver.open(m.layout.pod(p.UID, criconfig.QOSClass(p)))
	if err != nil {
		return 0, err
	}
	usage, err := g.usage()
	if err != nil {
		return 0, fmt.Errorf("read the pod's use of memory: %w", err)
	}
	return usage, nil
}

// check refuses a UID that can't name a cgroup, or might name another pod's.
func (m *Manager) check(uid types.UID) error {
	if err := criconfig.CheckUID(uid); err != nil {
		return err
	}
	if m.driver.systemd && strings.Contains(string(uid), "_") {
		return fmt.Errorf("UID %q has an underscore, which in the name of a slice stands for a dash", uid)
	}
	return nil
}

func (m *Manager) known(n name) (given, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.applied[n.cgroupfs()]
	return p, ok
}

func (m *Manager) remember(n name, p given) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied[n.cgroupfs()] = p
}

func (m *Manager) forget(n name) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.applied, n.cgroupfs())
}
