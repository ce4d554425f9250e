package claimvolumes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/tree"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/directory"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// The bounds of what helpers do.
const (
	// listBudget and listFiles are those of the measuring of a page, listLimit of the helper.
	listBudget, listLimit = 8 * time.Second, 12 * time.Second
	listFiles             = 2_000_000
	// checkBudget and checkFiles are those of the look at a directory that is to be removed.
	checkBudget, checkFiles = 10 * time.Minute, 100_000_000
	removeLimit             = time.Hour
	// idleLimit is how long an archive may make no progress, and archiveLimit how long it may take.
	idleLimit, archiveLimit = 5 * time.Minute, 24 * time.Hour
)

var (
	// ErrMissing is the error of a volume that doesn't exist.
	ErrMissing = errors.New("there is no such volume")
	// ErrRefused is the error of an archive that isn't imported.
	ErrRefused = errors.New("nothing was imported")
	// ErrStalled is the error of an archive that takes too long.
	ErrStalled = errors.New("the archive takes too long")
	// ErrName is the error of a name that no claim can have.
	ErrName = errors.New("it isn't the name of a volume")
)

// Helpers do the jobs: a *foreign.Helpers.
type Helpers interface {
	Do(ctx context.Context, volume string, job foreign.Job) (foreign.Answer, error)
	Stream(ctx context.Context, volume string, job foreign.Job, data *os.File) (foreign.Answer, error)
}

// Storage knows which pods use volumes: a *storage.Storage.
type Storage interface {
	Ready() bool
	Users(driver string) map[string][]storage.User
	Reserve(k record.Key) (release func(), err error)
}

// Bindings are those of the claims: a *staticclaim.Bindings.
type Bindings interface {
	Hold(c directory.Claim, why string) (release func(), err error)
	Unmake(c directory.Claim) (undo func() error, err error)
	Forget(c directory.Claim) error
}

// Config configures Volumes. All fields are needed.
type Config struct {
	// Root is --volume-dir.
	Root     string
	Helpers  Helpers
	Storage  Storage
	Bindings Bindings
	// Named returns what of the stream names a claim, for messages; empty: nothing does. It is an error if not all pods and
	// claims are known.
	Named func(c directory.Claim) (string, error)
	Log   *slog.Logger
}

// Volumes are the directories. It is safe for concurrent use.
type Volumes struct {
	cfg Config
	// start is the prefix of what this podexecd makes in the directory of what is incomplete.
	start string
	// idle is idleLimit, except in tests.
	idle time.Duration
}

// New returns Volumes.
func New(cfg Config) *Volumes { return &Volumes{cfg: cfg, start: rand.Text() + "-", idle: idleLimit} }

// Volume is a directory.
type Volume struct {
	Claim directory.Claim
	Dir   tree.Dir
	Path  string
	Users []storage.User
	Named bool
	// Unsettled is set if Users and Named may lack some.
	Unsettled bool
}

// Run removes what is left of an earlier podexecd. It doesn't retry: the next start does.
func (v *Volumes) Run(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, removeLimit)
	defer cancel()
	_, err := v.cfg.Helpers.Do(ctx, v.cfg.Root, foreign.Job{Sweep: &tree.Sweep{Root: v.cfg.Root, Keep: v.start}})
	if err != nil && ctx.Err() == nil {
		v.cfg.Log.Warn("parts of removed volumes are left; the next start of podexecd removes them", "dir", v.cfg.Root, "error", err)
	}
}

// List returns at most so many volumes after a name, which may be empty. There may be further ones after next, unless that is
// empty.
func (v *Volumes) List(ctx context.Context, after string, limit int) (all []Volume, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	answer, err := v.cfg.Helpers.Do(ctx, v.cfg.Root, foreign.Job{Survey: &tree.Survey{
		Root: v.cfg.Root, After: after, Max: limit, MaxFiles: listFiles, Budget: listBudget,
	}})
	if err != nil {
		return nil, "", fmt.Errorf("list the volumes in %s: %w", v.cfg.Root, err)
	}
	ready, users := v.cfg.Storage.Ready(), v.cfg.Storage.Users(directory.DriverName)
	for _, d := range answer.Surveyed.Dirs {
		if answer.Surveyed.More {
			next = d.Claim
		}
		namespace, name, _ := strings.Cut(d.Claim, "/")
		c := directory.Claim{Namespace: namespace, Name: name}
		if c.Check() != nil {
			continue // It isn't a claim's.
		}
		named, err := v.cfg.Named(c)
		all = append(all, Volume{
			Claim: c, Dir: d, Path: directory.New(v.cfg.Root).Path(c), Users: users[c.String()], Named: named != "", Unsettled: err != nil || !ready,
		})
	}
	return all, next, nil
}

// Remove removes a volume. left says what of it is still on disk. After an error the claim is bound as before.
func (v *Volumes) Remove(ctx context.Context, c directory.Claim) (left string, err error) {
	release, err := v.hold(c, "is being removed")
	if err != nil {
		return "", err
	}
	defer func() { release(err) }()
	switch named, err := v.cfg.Named(c); {
	case err != nil:
		return "", fmt.Errorf("it isn't known whether a claim names volume %s: %w", c, err)
	case named != "":
		return "", fmt.Errorf("volume %s: %s; remove that first", c, named)
	}
	if err := v.check(ctx, c); err != nil {
		return "", err
	}
	// From here on the caller's end changes nothing.
	ctx = context.WithoutCancel(ctx)
	// A podexecd that ends after the rename must not leave a claim whose directory is never created again.
	undo, err := v.cfg.Bindings.Unmake(c)
	if err != nil {
		return "", err
	}
	answer, err := v.remove(ctx, c)
	if err != nil {
		return v.unremoved(ctx, c, err, undo)
	}
	if err := v.cfg.Bindings.Forget(c); err != nil {
		v.cfg.Log.Warn("a volume is removed, and its claim is still bound to it; a pod gets a new directory", "volume", c.String(), "error", err)
	}
	return answer.Left, nil
}

func (v *Volumes) remove(ctx context.Context, c directory.Claim) (foreign.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, removeLimit)
	defer cancel()
	return v.cfg.Helpers.Do(ctx, v.cfg.Root, foreign.Job{Remove: &tree.Remove{Root: v.cfg.Root, Claim: c.String(), As: v.start + rand.Text()}})
}

// unremoved returns what follows from the error of a removal. The claim stays bound in each case: a directory that isn't there
// now may be on a file system that isn't mounted. If the directory certainly is there, the binding says so again.
func (v *Volumes) unremoved(ctx context.Context, c directory.Claim, err error, undo func() error) (left string, _ error) {
	explained := v.explain(c, err)
	if unended(err) {
		return "", explained
	}
	switch _, lookErr := v.look(ctx, c, 1, listBudget); {
	case foreign.IsReason(lookErr, foreign.Missing):
		return explained.Error(), nil // The helper failed after its rename.
	case lookErr != nil:
		return "", fmt.Errorf("%w; whether it still exists isn't known: %w", explained, lookErr)
	}
	return "", errors.Join(explained, undo())
}

// hold keeps pods from the volume, which none uses. release, with the operation's error, ends that, unless a helper may still
// change the volume.
func (v *Volumes) hold(c directory.Claim, why string) (release func(error), err error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrName, err)
	}
	unhold, err := v.cfg.Bindings.Hold(c, why)
	if err != nil {
		return nil, err
	}
	unreserve, err := v.cfg.Storage.Reserve(record.Key{Driver: directory.DriverName, Handle: c.String()})
	if err != nil {
		unhold()
		return nil, err
	}
	return func(err error) {
		if !unended(err) {
			unreserve()
			unhold()
		}
	}, nil
}

// unended reports whether the error is that of a helper that couldn't be ended: it may go on when its file system answers.
func unended(err error) bool {
	abandoned, ok := errors.AsType[*foreign.AbandonedError](err)
	return ok && !abandoned.Ended
}

// check returns an error unless the whole directory can be seen, and nothing is mounted in it.
func (v *Volumes) check(ctx context.Context, c directory.Claim) error {
	problem, err := v.look(ctx, c, checkFiles, checkBudget)
	if err != nil {
		return v.explain(c, err)
	}
	if problem != "" {
		return fmt.Errorf("volume %s: %s; nothing was removed", c, problem)
	}
	return nil
}

// look surveys one directory, and returns its problem. An error of the reason foreign.Missing: it doesn't exist.
func (v *Volumes) look(ctx context.Context, c directory.Claim, files int64, budget time.Duration) (problem string, err error) {
	ctx, cancel := context.WithTimeout(ctx, budget+listLimit)
	defer cancel()
	answer, err := v.cfg.Helpers.Do(ctx, v.cfg.Root, foreign.Job{Survey: &tree.Survey{
		Root: v.cfg.Root, Only: c.String(), Max: 1, MaxFiles: files, Budget: budget,
	}})
	if err != nil {
		return "", err
	}
	if len(answer.Surveyed.Dirs) != 1 {
		return "", fmt.Errorf("the survey has %d directories instead of one", len(answer.Surveyed.Dirs))
	}
	return answer.Surveyed.Dirs[0].Problem, nil
}

// explain returns a helper's error as one of this package.
func (v *Volumes) explain(c directory.Claim, err error) error {
	switch {
	case foreign.IsReason(err, foreign.Missing):
		return fmt.Errorf("%s: %w", directory.New(v.cfg.Root).Path(c), ErrMissing)
	case foreign.IsReason(err, foreign.Refused):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case unended(err):
		return fmt.Errorf("volume %s: no pod gets it until podexecd starts again, as a process may still change it: %w", c, err)
	}
	return fmt.Errorf("volume %s: %w", c, err)
}
