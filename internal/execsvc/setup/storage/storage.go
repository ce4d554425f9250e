package storage

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/selinuxmount"
)

// The defaults of Config.
const (
	// defaultTimeout is upstream's limit of a call to a CSI driver.
	defaultTimeout    = 2 * time.Minute
	defaultMaxVolumes = 2048
)

// Beyond Config.MaxVolumes, pods with fewer than fewVolumes get volumes, up to reserveFactor times as many. The bound of the files of records
// is higher.
const fewVolumes, reserveFactor = 16, 4

// Config configures a Storage.
type Config struct {
	// Records are the agent's records on disk.
	Records *record.Dir
	// Agent is the agent's ID, Boot the kernel's boot ID.
	Agent, Boot string
	// Backends make the calls, by the name in a Volume's Traits.
	Backends map[string]Backend
	// Claims resolves what pods' volumes refer to.
	Claims Claims
	// Attachments are the node's volumes in the API server. Nil: there is no API server, and a volume that must be
	// attached fails.
	Attachments Attachments
	// Takes reports whether the volume is set up here. Nil: those for which criconfig.IsPersistent.
	Takes func(*v1.Volume) bool
	// Republishes reports whether the driver wants NodePublishVolume to be repeated for volumes that are published:
	// requiresRepublish of its CSIDriver, as it is now. It must not block. Nil: none wants it.
	Republishes func(driver string) bool
	// Wake has a pod synced, after the repeated call for one of its volumes failed, or after one of its volumes was published or
	// unpublished for which its last sync couldn't wait. It must not block. Nil: its next sync finds that out.
	Wake func(types.UID)
	// Sizes makes volumes as large as their claims say. Nil: their sizes stay.
	Sizes Sizes
	// SELinux is set if SELinux is enabled on the node: the runtime labels the files of volumes whose backend says so.
	SELinux bool
	// SELinuxMetrics counts volumes with SELinux contexts. It may be nil.
	SELinuxMetrics *selinuxmount.Metrics
	// Timeout is the limit of each call. Zero: 2 min.
	Timeout time.Duration
	// MaxVolumes bounds the volumes on this node, but for pods with few volumes. Zero: 2048.
	MaxVolumes int
	// Clock is for tests. Nil: the real one.
	Clock clock.WithTicker
	// Log receives failures that no pod's error shows. Nil: the default logger.
	Log *slog.Logger
}

// Storage sets up persistent volumes. It is a volume.Plugin.
type Storage struct {
	cfg Config
	// ready is closed when the records have been read.
	ready chan struct{}

	mu sync.Mutex
	// ctx is Run's, for the goroutines of entries. running counts them; ended is set when no more may start.
	ctx     context.Context //nolint:containedctx // Goroutines start when a pod's worker calls, and end with Run.
	ended   bool
	running sync.WaitGroup
	entries map[record.Key]*entry
	// targets are the publications that are wanted or recorded, names those of pods' volumes.
	targets map[record.Target]*entry
	names   map[podVolume]record.Target
	// resolved are volumes between Locate and SetUp.
	resolved map[podVolume]Volume
	// missed are targets for which a pod's last sync couldn't wait: the pod is woken when they are ready.
	missed map[record.Target]bool
	// changing are names that are being changed in volumesInUse. Each channel is closed when that has ended.
	changing map[string]chan struct{}
	// reserved are volumes that no pod may want now.
	reserved map[record.Key]bool
	kept     []record.Kept
}

// podVolume is a volume of a pod's spec.
type podVolume struct {
	uid  types.UID
	name string
}

// New returns a Storage. It does nothing before Run.
func New(cfg Config) *Storage {
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.MaxVolumes == 0 {
		cfg.MaxVolumes = defaultMaxVolumes
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Storage{
		cfg: cfg, ready: make(chan struct{}), entries: map[record.Key]*entry{}, targets: map[record.Target]*entry{}, missed: map[record.Target]bool{},
		names: map[podVolume]record.Target{}, resolved: map[podVolume]Volume{}, reserved: map[record.Key]bool{},
		changing: map[string]chan struct{}{},
	}
}

// Run reads the records, continues what they say, and makes all calls until ctx ends. Then it waits for the calls that
// are being made. It retries until the records can be read.
func (s *Storage) Run(ctx context.Context) {
	for n := 1; ; n++ {
		err := s.reconstruct(ctx)
		if err == nil {
			break
		}
		if ctx.Err() == nil {
			s.cfg.Log.Error("the records of volumes can't be read; pods with volumes wait, and it is tried again", "error", err)
		}
		if !s.sleep(ctx, backoff(n)) {
			break
		}
	}
	<-ctx.Done()
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.running.Wait()
}

func (s *Storage) sleep(ctx context.Context, d time.Duration) bool {
	timer := s.cfg.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}

// reconstruct reads the records. It needs neither the API server nor podconfigd.
func (s *Storage) reconstruct(ctx context.Context) error {
	volumes, kept, err := s.cfg.Records.Load(ctx)
	if err != nil {
		return err
	}
	for _, k := range kept {
		if k.Err != nil {
			s.cfg.Log.Error("the record of a volume is damaged; the volume may be mounted, and isn't touched", "path", k.File, "error", k.Err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx, s.kept = ctx, kept
	for i := range volumes {
		v := &volumes[i]
		e := newEntry(recovered(v, s.cfg.Boot))
		e.state.readContext(s.cfg.Backends[v.Backend])
		e.onDisk, e.publications = true, len(v.Publications)
		s.entries[v.Key] = e
		for _, p := range v.Publications {
			s.targets[p.Target] = e
			for _, name := range p.Volumes {
				s.names[podVolume{p.UID, name}] = p.Target
			}
		}
		s.wake(e)
	}
	close(s.ready)
	return nil
}

// Reconstructed returns a channel that is closed when the records have been read: InUse, Pods and Kept are complete
// then.
func (s *Storage) Reconstructed() <-chan struct{} { return s.ready }

// InUse returns the names that must be in the node's volumesInUse, sorted. complete is false if a record is damaged: then
// no other name may be removed from it either.
func (s *Storage) InUse() (names []string, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if e.state.Use != record.NotInUse {
			names = append(names, e.state.UniqueName)
		}
	}
	slices.Sort(names)
	return names, !slices.ContainsFunc(s.kept, func(k record.Kept) bool { return k.Err != nil })
}

// Kept returns the records that aren't used: damaged ones, and those of other agents.
func (s *Storage) Kept() []record.Kept {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.kept)
}

// Pods is part of volume.Located: the pods that have volumes, or may have.
func (s *Storage) Pods() []types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	uids := make([]types.UID, 0, len(s.targets))
	for t := range s.targets {
		uids = append(uids, t.UID)
	}
	slices.Sort(uids)
	return slices.Compact(uids)
}

// await returns when the records have been read.
func (s *Storage) awaitReady(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the records of volumes haven't been read yet: %w", context.Cause(ctx))
	}
}
