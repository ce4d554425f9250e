package userns

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// Range is Length IDs from First on.
type Range struct{ First, Length uint32 }

// end returns the first ID after the range.
func (r Range) end() uint64 { return uint64(r.First) + uint64(r.Length) }

func (r Range) overlaps(o Range) bool {
	return uint64(r.First) < o.end() && uint64(o.First) < r.end()
}

const (
	// block is the default number of IDs per pod, all those of 16 bits. The number of IDs must be a multiple of it.
	block = 1 << 16
	// first is the lowest ID for pods: lower ones belong to the node.
	first = block
	// end is the ID after the last one for pods: the highest ID has a special meaning in the kernel.
	end = 1<<32 - 1
)

// defaultRange is the default range of all pods: all whole blocks.
var defaultRange = Range{First: first, Length: end/block*block - first}

// ErrExhausted is returned when all IDs are allocated.
var ErrExhausted = errors.New("no user IDs are left for a pod with a user namespace")

// Config configures a Manager.
type Config struct {
	// PodDirs are the places of the pods' directories.
	PodDirs kubeletdir.Pods
	// IDsPerPod is the number of IDs of each pod, a multiple of 65536. Zero means 65536.
	IDsPerPod uint32
	// Range is shared by all pods. Zero means all IDs from 65536 on.
	Range Range
}

// Manager allocates ranges to pods. It is safe for concurrent use.
type Manager struct {
	cfg Config

	mu   sync.Mutex
	used map[types.UID]Range
	// unknown are the pods with invalid records, with the error.
	unknown map[types.UID]error
}

// New restores the allocations of existing pods.
func New(cfg Config) (*Manager, error) {
	if cfg.IDsPerPod == 0 {
		cfg.IDsPerPod = block
	}
	if cfg.Range == (Range{}) {
		cfg.Range = defaultRange
	}
	switch r := cfg.Range; {
	case cfg.IDsPerPod%block != 0:
		return nil, fmt.Errorf("a pod can't have %d user IDs: the number must be a multiple of %d", cfg.IDsPerPod, block)
	case r.First < first || r.end() > 1<<32:
		return nil, fmt.Errorf("the user IDs %d to %d are invalid for pods: they must be at least %d and have 32 bits", r.First, r.end()-1, first)
	case r.Length < cfg.IDsPerPod:
		return nil, fmt.Errorf("there are %d user IDs for pods, and each pod needs %d", r.Length, cfg.IDsPerPod)
	}
	m := &Manager{cfg: cfg, used: map[types.UID]Range{}, unknown: map[types.UID]error{}}
	uids, err := cfg.PodDirs.List()
	if err != nil {
		return nil, err
	}
	for _, uid := range uids {
		m.restore(uid)
	}
	return m, nil
}

// restore restores a pod's range from its record, if there is one.
func (m *Manager) restore(uid types.UID) {
	r, err := readRecord(m.path(uid))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if other, taken := m.holder(r); err == nil && taken {
		err = fmt.Errorf("its IDs from %d are those of pod %s too", r.First, other)
	}
	if err != nil {
		m.unknown[uid] = fmt.Errorf("%s: %w", m.path(uid), err)
		return
	}
	m.used[uid] = r
}

// holder returns a pod with an ID of the range.
func (m *Manager) holder(r Range) (types.UID, bool) {
	for uid, has := range m.used {
		if has.overlaps(r) {
			return uid, true
		}
	}
	return "", false
}

func (m *Manager) path(uid types.UID) string {
	return filepath.Join(m.cfg.PodDirs.Of(uid), recordFile)
}

// Of returns the pod's user namespace, and allocates one if it has none. The pod's directory must exist. ErrExhausted
// means that all IDs are allocated.
func (m *Manager) Of(uid types.UID) (*criconfig.UserNamespace, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, has := m.used[uid]
	if !has {
		var err error
		if r, err = m.free(); err != nil {
			return nil, err
		}
		if err := writeRecord(m.path(uid), r); err != nil {
			return nil, fmt.Errorf("record the pod's user IDs: %w", err)
		}
		m.used[uid] = r
	}
	return &criconfig.UserNamespace{HostID: r.First, Length: r.Length}, nil
}

// free returns the lowest free range.
func (m *Manager) free() (Range, error) {
	if len(m.unknown) > 0 {
		uid := slices.Min(slices.Collect(maps.Keys(m.unknown)))
		return Range{}, fmt.Errorf("free user IDs are unknown while pod %s exists: %w", uid, m.unknown[uid])
	}
	limit, length := min(m.cfg.Range.end(), end), uint64(m.cfg.IDsPerPod)
	for at := uint64(m.cfg.Range.First); at+length <= limit; {
		r := Range{First: uint32(at), Length: m.cfg.IDsPerPod}
		other, taken := m.holder(r)
		if !taken {
			return r, nil
		}
		at = m.used[other].end()
	}
	return Range{}, ErrExhausted
}

// Free releases the pod's range. The pod's directory must be gone.
func (m *Manager) Free(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.used, uid)
	delete(m.unknown, uid)
}
