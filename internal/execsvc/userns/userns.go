package userns

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

// Range are the ids from First, Length of them.
type Range struct{ First, Length uint32 }

// end is the first id after the range.
func (r Range) end() uint64 { return uint64(r.First) + uint64(r.Length) }

func (r Range) overlaps(o Range) bool {
	return uint64(r.First) < o.end() && uint64(o.First) < r.end()
}

const (
	// block is how many ids a pod has if nothing else is said, and what its number of ids is a multiple of: all those of 16 bits.
	block = 1 << 16
	// first is the least id that may be a pod's: those below are the node's own.
	first = block
	// end is after the last id that may be a pod's: the kernel has a meaning of its own for the highest one.
	end = 1<<32 - 1
)

// defaultRange is what the pods share if nothing else is said: whole blocks, as many as there are.
var defaultRange = Range{First: first, Length: end/block*block - first}

// ErrExhausted is when all ids are taken.
var ErrExhausted = errors.New("no user ids are left for a pod of its own users")

// Config says which ids pods get.
type Config struct {
	// PodsDir has a directory for each pod: <root-dir>/pods.
	PodsDir string
	// IDsPerPod is how many ids each pod gets, a multiple of 65536. Zero means 65536.
	IDsPerPod uint32
	// Range is shared by all pods. Zero means all ids from 65536 on.
	Range Range
}

// Manager knows which pod has which ids. It is safe for concurrent use.
type Manager struct {
	cfg Config

	mu   sync.Mutex
	used map[types.UID]Range
	// unknown are the pods whose files can't be believed, with what is wrong.
	unknown map[types.UID]error
}

// New reads what the pods have that are there.
func New(cfg Config) (*Manager, error) {
	if cfg.IDsPerPod == 0 {
		cfg.IDsPerPod = block
	}
	if cfg.Range == (Range{}) {
		cfg.Range = defaultRange
	}
	switch r := cfg.Range; {
	case cfg.IDsPerPod%block != 0:
		return nil, fmt.Errorf("a pod can't have %d user ids: it must be a multiple of %d", cfg.IDsPerPod, block)
	case r.First < first || r.end() > 1<<32:
		return nil, fmt.Errorf("the user ids %d to %d can't be those of pods: they must be from %d, and of 32 bits", r.First, r.end()-1, first)
	case r.Length < cfg.IDsPerPod:
		return nil, fmt.Errorf("there are %d user ids for pods, and each gets %d", r.Length, cfg.IDsPerPod)
	}
	m := &Manager{cfg: cfg, used: map[types.UID]Range{}, unknown: map[types.UID]error{}}
	entries, err := os.ReadDir(cfg.PodsDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the pods' directories: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			m.restore(types.UID(e.Name()))
		}
	}
	return m, nil
}

// restore takes up what a pod has by its file, if it has one.
func (m *Manager) restore(uid types.UID) {
	r, err := readRecord(m.path(uid))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if other, taken := m.holder(r); err == nil && taken {
		err = fmt.Errorf("it has the ids from %d, and so has pod %s", r.First, other)
	}
	if err != nil {
		m.unknown[uid] = fmt.Errorf("%s: %w", m.path(uid), err)
		return
	}
	m.used[uid] = r
}

// holder is a pod that has an id of the range.
func (m *Manager) holder(r Range) (types.UID, bool) {
	for uid, has := range m.used {
		if has.overlaps(r) {
			return uid, true
		}
	}
	return "", false
}

func (m *Manager) path(uid types.UID) string {
	return filepath.Join(m.cfg.PodsDir, string(uid), recordFile)
}

// Of is the pod's user namespace: the one that it has, or one that is free. The pod's directory must be there. ErrExhausted is when none is
// free.
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
			return nil, fmt.Errorf("note which user ids the pod has: %w", err)
		}
		m.used[uid] = r
	}
	return &criconfig.UserNamespace{HostID: r.First, Length: r.Length}, nil
}

// free finds ids that no pod has, the lowest ones.
func (m *Manager) free() (Range, error) {
	if len(m.unknown) > 0 {
		uid := slices.Min(slices.Collect(maps.Keys(m.unknown)))
		return Range{}, fmt.Errorf("which user ids are free isn't known while pod %s is there: %w", uid, m.unknown[uid])
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

// Free takes the word that the pod's directory is gone, or that it has none.
func (m *Manager) Free(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.used, uid)
	delete(m.unknown, uid)
}
