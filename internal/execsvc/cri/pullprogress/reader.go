package pullprogress

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"
)

// Store has the blobs of images: a *containerd.Content.
type Store interface {
	// Ingests returns the blobs that arrive now, with the bytes that have arrived, by digest.
	Ingests(ctx context.Context) (map[string]int64, error)
	// Manifests returns the digests of the manifests in a repository that pulls have used at since or later. arrived are the
	// blobs that arrive now.
	Manifests(ctx context.Context, host, path string, since time.Time, arrived map[string]int64) ([]string, error)
	// Has reports whether a blob is complete.
	Has(ctx context.Context, digest string) (bool, error)
	// Read returns a blob of at most limit bytes.
	Read(ctx context.Context, digest string, limit int) ([]byte, error)
}

// Config configures a Reader.
type Config struct {
	Store Store
	// Clock is for the pauses. Nil means the real one.
	Clock clock.PassiveClock
	// Logger receives a message when the store begins to fail. Nil discards.
	Logger *slog.Logger
}

// Pull is a running pull.
type Pull struct {
	// Repository is the repository with its registry, "docker.io/library/busybox"; Name that with the tag or digest.
	Repository, Name string
	// Started is when the runtime was called.
	Started time.Time
}

// The bounds of one reading.
const (
	// Timeout is the time limit.
	Timeout = 5 * time.Second
	// maxFound is how many manifests of one repository are looked at, maxReads how many are read, and maxLooks how many
	// layers are looked for.
	maxFound, maxReads, maxLooks = 64, 16, 200
	// firstPause is the pause after a failure; it doubles up to lastPause. A runtime without the store has foreignPause: it
	// may be replaced by another one.
	firstPause, lastPause = time.Second, 30 * time.Second
	foreignPause          = 10 * time.Minute
	// longestWait is the longest time between two searches for the manifest of a pull.
	longestWait = 5 * time.Second
)

// Reader reads the progress of pulls.
type Reader struct {
	cfg Config
	log *slog.Logger

	// groups are the pulls of each repository.
	groups map[place]*group
	// manifests are those of the groups, by digest. Nil: it can't be used.
	manifests map[string]manifest
	// seen are the layers of the manifests.
	seen map[string]sight

	// until is when the store is used again after a failure, and pause the last pause.
	until time.Time
	pause time.Duration
}

// New returns a Reader that has read nothing.
func New(cfg Config) *Reader {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Reader{cfg: cfg, log: cfg.Logger, groups: map[place]*group{}, manifests: map[string]manifest{}, seen: map[string]sight{}}
}

// Read returns the progress of each of the running pulls, in their order. Nil: it isn't known. pulls are all that run:
// what the Reader keeps of others is dropped.
func (r *Reader) Read(ctx context.Context, pulls []Pull) []*Progress {
	out := make([]*Progress, len(pulls))
	now := r.cfg.Clock.Now()
	if now.Before(r.until) {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	r.groups = regroup(r.groups, pulls)
	known, err := r.read(ctx, now)
	if err != nil {
		// The end of the caller isn't a failure of the store.
		if !errors.Is(ctx.Err(), context.Canceled) {
			r.failed(now, err)
		}
		return out
	}
	r.pause = 0
	for i, pull := range pulls {
		if at, ok := placeOf(pull.Repository); ok {
			out[i] = known[at]
		}
	}
	return out
}

// failed sets the pause after a failure.
func (r *Reader) failed(now time.Time, err error) {
	if status.Code(err) == codes.Unimplemented {
		r.until = now.Add(foreignPause)
		r.log.Debug("the container runtime doesn't report how far pulls are", "error", err)
		return
	}
	if r.pause == 0 {
		r.log.Warn("can't read how far pulls are; the pulls go on", "error", err)
	}
	r.pause = min(max(2*r.pause, firstPause), lastPause)
	r.until = now.Add(r.pause)
}

// read returns the progress of the groups of which it is known, and forgets what isn't theirs.
func (r *Reader) read(ctx context.Context, now time.Time) (map[place]*Progress, error) {
	arrived, err := r.cfg.Store.Ingests(ctx)
	if err != nil {
		return nil, err
	}
	step := &reading{
		Reader: r, arrived: arrived, reads: maxReads, looks: maxLooks, now: now, manifests: map[string]manifest{}, seen: map[string]sight{},
	}
	out := map[place]*Progress{}
	for at, g := range r.groups {
		step.groups = len(r.groups) - len(out)
		if out[at], err = step.group(ctx, at, g); err != nil {
			return nil, err
		}
	}
	r.manifests, r.seen = step.manifests, step.seen
	return out, nil
}
