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
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/failpoint"
)

// The drivers, by their names in KubeletConfiguration.
const (
	Cgroupfs = "cgroupfs"
	Systemd  = "systemd"
)

// ErrBusy is returned when an operation can't succeed now but may later: a memory limit below the usage, or the
// removal of a cgroup with live processes. The caller retries.
var ErrBusy = errors.New("the cgroup is busy")

// Config configures a Manager. Its zero value makes one that does nothing.
type Config struct {
	// PerQoS is cgroupsPerQOS. With false the Manager does nothing, and pods have no cgroup parent.
	PerQoS bool
	// Root is cgroupRoot, in which kubepods is created. Empty means "/". It is created if missing.
	Root string
	// Driver is Cgroupfs or Systemd, and must be the runtime's. Empty means Cgroupfs.
	Driver string
	// Allocatable is the limit of all pods together: the node's capacity, less the reserved resources where
	// enforceNodeAllocatable names pods. It covers cpu, memory, pid and hugepages-<size>; a missing resource isn't
	// limited, and a missing cpu keeps the kernel's share.
	Allocatable v1.ResourceList
	// PodPidsLimit is podPidsLimit: the processes of one pod. Zero or less means no limit.
	PodPidsLimit int64
	// NoCPUQuota is cpuCFSQuota: false: cpu limits are not enforced.
	NoCPUQuota bool
	// CPUQuotaPeriod is cpuCFSQuotaPeriod. Zero means 100 ms.
	CPUQuotaPeriod time.Duration
	// ReserveMemory is memoryReservationPolicy: TieredReservation, for cgroup v2: memory.min is the requests of
	// guaranteed pods, memory.low those of burstable ones. It has no effect on v1.
	ReserveMemory bool
	// Limited receives nil when the limits of all pods together are set, and the error when they can't be: from New, and
	// from Balance if that has changed. Nil: it isn't called.
	Limited func(error)
	// Metrics registers the metrics of cgroups. Nil: they aren't served.
	Metrics prometheus.Registerer
	// Logger receives a line when New leaves a limit to Balance. Nil discards it.
	Logger *slog.Logger
}

// Manager creates, updates and removes the cgroups of pods.
type Manager struct {
	off         bool
	driver      driver
	layout      layout
	settings    settings
	allocatable v1.ResourceList

	tiers   tiers
	limited func(error)
	metrics *metrics

	mu sync.Mutex
	// applied is the last state of each pod's cgroup, by its name.
	applied map[string]appliedGroup
}

// appliedGroup is a pod's cgroup with its last resources.
type appliedGroup struct {
	group     group
	resources cgroups.Resources
}

// New creates kubepods and its tiers, or adopts existing ones.
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
	if cfg.Limited == nil {
		cfg.Limited = func(error) {}
	}
	v2 := cgroups.IsCgroup2UnifiedMode()
	m := &Manager{
		driver:      driver{systemd: cfg.Driver == Systemd, v2: v2},
		layout:      newLayout(cfg.Root),
		allocatable: cfg.Allocatable,
		limited:     cfg.Limited,
		metrics:     newMetrics(cfg.Metrics),
		applied:     map[string]appliedGroup{},
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

// Parent returns the cgroup_parent of the pod's sandbox, as the kubelet passes it to the runtime: a path
// (/kubepods/burstable/pod<uid>), or nested slices for systemd. It is empty if the Manager does nothing.
func (m *Manager) Parent(p *v1.Pod) string {
	if m.off {
		return ""
	}
	return m.driver.path(m.layout.pod(p.UID, podmeta.QOSClass(p)))
}

// Ensure creates the pod's cgroup, or raises its limits to the pod's current ones. It lowers no limit that the
// containers may still use. It may be called at each sync, before containers are started or changed: without a change
// it only checks that the cgroup exists.
func (m *Manager) Ensure(p *v1.Pod) error {
	if err := m.apply(p, widen); err != nil {
		return &MakeError{err}
	}
	return nil
}

// MakeError is the error of Ensure.
type MakeError struct{ err error }

func (e *MakeError) Error() string {
	return "unable to ensure pod container exists: make the pod's cgroup: " + e.err.Error()
}

// Unwrap returns the cause.
func (e *MakeError) Unwrap() error { return e.err }

// SetPod sets the pod's cgroup to the pod's current limits, also to lower ones. It is called after the containers
// have theirs, and like Ensure is cheap without a change. The error is ErrBusy if more memory is in use than the new
// limit; the other limits are set then.
func (m *Manager) SetPod(p *v1.Pod) error {
	exactly := func(want, _ cgroups.Resources) cgroups.Resources { return want }
	if err := m.apply(p, exactly); err != nil {
		return fmt.Errorf("set the limits of the pod's cgroup: %w", err)
	}
	return nil
}

// apply sets the pod's cgroup to the result of next for the wanted and the current resources.
func (m *Manager) apply(p *v1.Pod, next func(want, have cgroups.Resources) cgroups.Resources) error {
	if m.off {
		return nil
	}
	if err := m.check(p.UID); err != nil {
		return err
	}
	n, want := m.layout.pod(p.UID, podmeta.QOSClass(p)), m.settings.pod(p)
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
		// A previous process made it: its resources are unknown.
		have, err := g.limits()
		if err != nil {
			return err
		}
		want = next(want, have)
	default:
		began := time.Now()
		err := g.create()
		m.metrics.took("create", began)
		if err != nil {
			return err
		}
		failpoint.Reached(failpoint.CgroupMade)
	}
	// After a failure the state is unknown.
	m.drop(n)
	began := time.Now()
	err := g.set(want)
	m.metrics.took("update", began)
	if err != nil {
		return err
	}
	m.remember(n, appliedGroup{group: g, resources: want})
	return nil
}

// Remove kills the processes in the pod's cgroup, of whatever QoS class, waits for them to exit, and removes it. A
// missing cgroup is no error. The error is ErrBusy if a process is left when ctx ends.
func (m *Manager) Remove(ctx context.Context, uid types.UID) error {
	if m.off {
		return nil
	}
	if m.check(uid) != nil {
		// A pod whose UID can't name a cgroup never had one. An error would be repeated for ever.
		return nil //nolint:nilerr // see above
	}
	if failpoint.Active(failpoint.LeaveCgroup) {
		return nil
	}
	var errs []error
	for _, n := range m.layout.everywhere(uid) {
		m.drop(n)
		g, err := m.driver.open(n)
		if err == nil {
			began, there := time.Now(), g.exists()
			if err = g.remove(ctx); there {
				m.metrics.took("destroy", began)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("remove the cgroup %s: %w", m.driver.path(n), err))
		}
	}
	return errors.Join(errs...)
}

// Usage returns the pod's memory usage in bytes, including reclaimable memory. The error is fs.ErrNotExist if it has
// no cgroup.
func (m *Manager) Usage(p *v1.Pod) (int64, error) {
	if m.off {
		return 0, errors.New("pods have no cgroups: cgroupsPerQOS is off")
	}
	if err := m.check(p.UID); err != nil {
		return 0, err
	}
	g, err := m.driver.open(m.layout.pod(p.UID, podmeta.QOSClass(p)))
	if err != nil {
		return 0, err
	}
	usage, err := g.usage()
	if err != nil {
		return 0, fmt.Errorf("read the pod's memory usage: %w", err)
	}
	return usage, nil
}

// check rejects a UID that can't name a cgroup, or could name another pod's.
func (m *Manager) check(uid types.UID) error {
	if err := podmeta.CheckUID(uid); err != nil {
		return err
	}
	if m.driver.systemd && strings.Contains(string(uid), "_") {
		return fmt.Errorf("UID %q has an underscore, which stands for a dash in the name of a slice", uid)
	}
	return nil
}

func (m *Manager) known(n name) (appliedGroup, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.applied[n.cgroupfs()]
	return p, ok
}

func (m *Manager) remember(n name, p appliedGroup) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied[n.cgroupfs()] = p
}

func (m *Manager) drop(n name) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.applied, n.cgroupfs())
}
