package iscsi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/podmount"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

const (
	// mountLimit is the limit of one mount, which may check its file system first: that takes hours on a large disk.
	mountLimit = 12 * time.Hour
	// settleTime is how long iscsid may go on with a login or a logout after iscsiadm was killed.
	settleTime = time.Minute
)

var (
	_ storage.Backend  = (*Backend)(nil)
	_ storage.Devices  = (*Backend)(nil)
	_ storage.Relabels = (*Backend)(nil)
)

// Secrets reads secrets.
type Secrets interface {
	// Secret returns the data of a secret, which isn't changed. The error names the secret, and has none of its data.
	Secret(ctx context.Context, namespace, name string) (map[string]string, error)
}

// Config configures a Backend.
type Config struct {
	// Dir is the directory of the records of sessions.
	Dir string
	// Agent is the agent's ID, Boot the kernel's boot ID.
	Agent, Boot string
	Helpers     *foreign.Helpers
	// Secrets reads the Secrets of CHAP. Nil: a volume with one is refused.
	Secrets Secrets
	// Host is where the helpers work. The zero value is this machine.
	Host initiator.Host
	// Log receives what keeps no pod waiting. Nil: the default logger.
	Log *slog.Logger

	// settle, multipath and sweep are for tests. Zero: settleTime, multipathWait and sweepInterval. A negative sweep: there is none.
	settle, multipath, sweep time.Duration
	// lookUp is for tests too. Nil: the machine's resolver.
	lookUp func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Backend attaches and mounts disks.
type Backend struct {
	cfg     Config
	records *records
	locks   locks
	groups  *foreign.Groups
	// mounts mounts disks, by their volumes' handles.
	mounts *foreign.Lasting
	// stop ends the sweep, which sweeping waits for.
	stop     context.CancelFunc
	sweeping sync.WaitGroup

	mu sync.Mutex
	// unsettled is until when a login may still make a session, and ending until when a logout may still end it.
	unsettled, ending map[initiator.Session]time.Time
	// unsettles has an element if unsettled has got one.
	unsettles chan struct{}
}

// New returns a Backend. Close ends its goroutines.
func New(cfg Config) (*Backend, error) {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.settle == 0 {
		cfg.settle = settleTime
	}
	if cfg.lookUp == nil {
		cfg.lookUp = net.DefaultResolver.LookupNetIP
	}
	if cfg.multipath == 0 {
		cfg.multipath = multipathWait
	}
	if cfg.sweep == 0 {
		cfg.sweep = sweepInterval
	}
	r, err := openRecords(cfg.Dir, cfg.Agent, cfg.Boot)
	if err != nil {
		return nil, err
	}
	for file, err := range r.kept {
		cfg.Log.Error("the record of an iSCSI session can't be used; the session isn't touched", "path", file, "error", err)
	}
	b := &Backend{
		cfg: cfg, records: r, groups: foreign.NewGroups(cfg.Helpers.SetGroup),
		unsettled: map[initiator.Session]time.Time{}, ending: map[initiator.Session]time.Time{}, unsettles: make(chan struct{}, 1),
		mounts: foreign.NewLasting(mountLimit, "iscsi: the disk is still being checked, formatted or mounted"),
	}
	all, _ := r.list()
	for _, s := range all {
		if s.Boot == cfg.Boot && s.Begun {
			b.unsettle([]initiator.Session{s.Session})
		}
		if s.Boot == cfg.Boot && s.Ending {
			b.noteEnding(s.Session)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	if cfg.sweep > 0 {
		b.sweeping.Go(func() { b.sweep(ctx) })
	}
	return b, nil
}

// Close ends the changes of groups, the mounts of disks, and the sweep. No other method may be called after it.
func (b *Backend) Close() {
	b.groups.Close()
	b.mounts.Close()
	b.stop()
	b.sweeping.Wait()
}

// MountPoint is part of storage.Backend.
func (*Backend) MountPoint(dir string) string { return dir }

// Relabels is part of storage.Relabels.
func (*Backend) Relabels(storage.Publishing) bool { return true }

// VolumeName is part of storage.Backend: portal, target and logical unit.
func (*Backend) VolumeName(k record.Key) string {
	return volumeName(k.Handle)
}

func volumeName(handle string) string {
	name, _, _ := strings.Cut(handle, "#")
	return name
}

// Expand is part of storage.Backend. As with the kubelet, the file system stays as large as it is.
func (*Backend) Expand(context.Context, storage.Publishing, string) error {
	return notSent(fmt.Errorf("the file system of an iSCSI disk: %w", storage.ErrNoExpand))
}

// Stats is part of storage.Backend.
func (b *Backend) Stats(ctx context.Context, p storage.Publishing) (storage.Stats, error) {
	if p.Device {
		return storage.Stats{}, fmt.Errorf("volume %s is a block device: %w", p.Name, storage.ErrNoStats)
	}
	return podmount.Stats(ctx, b.cfg.Helpers, b.VolumeName(p.Key), p.Dir)
}

// errNothing is the error of a helper process that answers without a result.
var errNothing = errors.New("the helper process returned nothing")

// do has a helper do a job.
func (b *Backend) do(ctx context.Context, k record.Key, job initiator.Job) (initiator.Answer, error) {
	job.Host = b.cfg.Host
	a, err := b.cfg.Helpers.Do(ctx, b.VolumeName(k), foreign.Job{Initiator: &job})
	return a.Initiator, err
}

// unsettle notes that a login to the sessions may still go on.
func (b *Backend) unsettle(sessions []initiator.Session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range sessions {
		b.unsettled[key(s)] = time.Now().Add(b.cfg.settle)
	}
	if len(sessions) == 0 {
		return
	}
	select {
	case b.unsettles <- struct{}{}:
	default:
	}
}

// settles returns how long it takes until the first login has certainly ended, at most limit.
func (b *Backend) settles(limit time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, until := range b.unsettled {
		limit = min(limit, max(time.Until(until), 0))
	}
	return limit
}

// settled returns an error while a login to the session may still go on.
func (b *Backend) settled(s initiator.Session) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	until, has := b.unsettled[key(s)]
	if !has {
		return nil
	}
	if left := time.Until(until); left > 0 {
		return fmt.Errorf("a login to %v may not have ended: it is looked at again in %s", s, left.Round(time.Second))
	}
	delete(b.unsettled, key(s))
	return nil
}

// noteEnding notes that a logout of the session may still go on.
func (b *Backend) noteEnding(s initiator.Session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ending[key(s)] = time.Now().Add(b.cfg.settle)
}

// stays returns an error while a logout may still end one of the sessions, which there are: the disk would be lost beneath its mount.
func (b *Backend) stays(live []initiator.Session) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range live {
		until, has := b.ending[key(s)]
		if !has {
			continue
		}
		if left := time.Until(until); left > 0 {
			return fmt.Errorf("a logout of %v may not have ended: it is looked at again in %s", key(s), left.Round(time.Second))
		}
	}
	return nil
}

// forgetEnding forgets a logout: it has ended, or wasn't done.
func (b *Backend) forgetEnding(s initiator.Session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.ending, key(s))
}
