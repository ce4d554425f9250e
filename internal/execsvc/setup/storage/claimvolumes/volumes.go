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
	removeLimit           = time.Hour
	// sweepAgain is how long Run waits for helpers of an earlier podexecd.
	sweepAgain = time.Minute
	// idleLimit is how long idleBytes of an archive may take, or its end, and archiveLimit how long all of it.
	idleLimit, archiveLimit = 5 * time.Minute, 24 * time.Hour
	idleBytes               = 1 << 20
)

var (
	// ErrMissing is the error of a volume that doesn't exist.
	ErrMissing = errors.New("there is no such volume")
	// ErrRefused is the error of an archive that isn't imported.
	ErrRefused = errors.New("nothing was imported")
	// ErrStalled is the error of an archive that takes too long.
	ErrStalled = errors.New("the archive takes too long")
	// ErrUnknown is the error of an import after which the volume has either content as a whole, and it isn't known which.
	ErrUnknown = errors.New("it isn't known which content it has, that from before or the archive's")
	// ErrInUse is the error of a volume that another request reads or changes.
	ErrInUse = errors.New("repeat it when that has ended")
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
	HasMade(c directory.Claim) bool
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
	cfg  Config
	uses uses
	// start is the prefix of what this podexecd makes in the directory of what is incomplete.
	start string
	// idle is idleLimit, except in tests.
	idle time.Duration
	// again is sweepAgain, except in tests.
	again time.Duration
	// replaced are the names of replaced contents, for Run.
	replaced chan string
}

// maxReplaced bounds the replaced contents that wait for their removal. Others wait for the next start.
const maxReplaced = 64

// New returns Volumes.
func New(cfg Config) *Volumes {
	return &Volumes{cfg: cfg, start: rand.Text() + "-", idle: idleLimit, again: sweepAgain, replaced: make(chan string, maxReplaced)}
}

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
	defer func() { release(unended(err), err) }()
	if err := v.unnamed(c); err != nil {
		return "", err
	}
	if err := v.check(ctx, c); err != nil {
		return "", err
	}
	// The check may have taken a while.
	if err := v.unnamed(c); err != nil {
		return "", err
	}
	// From here on the caller's end changes nothing.
	ctx = context.WithoutCancel(ctx)
	// A podexecd that ends after the rename must not leave a claim whose directory is never created again.
	undo, err := v.cfg.Bindings.Unmake(c)
	if err != nil {
		return "", err
	}
	as := v.start + rand.Text()
	if err := v.rename(ctx, c, as); err != nil {
		return v.unremoved(ctx, c, err, undo)
	}
	// The volume is removed now. The removal of its files may take long, and can be broken off.
	if err := v.cfg.Bindings.Forget(c); err != nil {
		v.cfg.Log.Warn("a volume is removed, and its claim is still bound to it; a pod gets a new directory", "volume", c.String(), "error", err)
	}
	if err := v.drop(ctx, as); err != nil {
		return err.Error(), nil
	}
	return "", nil
}

// unnamed returns an error unless it is known that no claim of the stream names the volume.
func (v *Volumes) unnamed(c directory.Claim) error {
	switch named, err := v.cfg.Named(c); {
	case err != nil:
		return fmt.Errorf("it isn't known whether a claim names volume %s: %w", c, err)
	case named != "":
		return fmt.Errorf("volume %s: %s; remove that first", c, named)
	}
	return nil
}

func (v *Volumes) rename(ctx context.Context, c directory.Claim, as string) error {
	ctx, cancel := context.WithTimeout(ctx, removeLimit)
	defer cancel()
	_, err := v.cfg.Helpers.Do(ctx, v.cfg.Root, foreign.Job{Remove: &tree.Remove{Root: v.cfg.Root, Claim: c.String(), As: as}})
	return err
}

// unremoved returns what follows from the error of a removal. The claim stays bound in each case: a directory that isn't there
// now may be on a file system that isn't mounted. If the directory certainly is there, the binding says so again.
func (v *Volumes) unremoved(ctx context.Context, c directory.Claim, err error, undo func() error) (left string, _ error) {
	explained := v.explain(c, err)
	if unended(err) {
		return "", explained
	}
	switch _, lookErr := v.look(ctx, c); {
	case foreign.IsReason(lookErr, foreign.Missing):
		return explained.Error(), nil // The helper failed after its rename.
	case lookErr != nil:
		return "", fmt.Errorf("%w; whether it still exists isn't known: %w", explained, lookErr)
	}
	return "", errors.Join(explained, undo())
}

// hold keeps pods and exports from the volume, which none uses. release ends that, unless keep is set: a helper may still change the volume,
// or which content it has after a crash of the machine isn't certain. In the second case, which failure tells, it can be exported.
func (v *Volumes) hold(c directory.Claim, why string) (release func(keep bool, failure error), err error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrName, err)
	}
	unuse, err := v.uses.change(c, why)
	if err != nil {
		return nil, err
	}
	unhold, err := v.cfg.Bindings.Hold(c, why)
	if err != nil {
		unuse()
		return nil, err
	}
	unreserve, err := v.cfg.Storage.Reserve(record.Key{Driver: directory.DriverName, Handle: c.String()})
	if err != nil {
		unhold()
		unuse()
		return nil, err
	}
	return func(keep bool, failure error) {
		if keep {
			v.uses.stay(c, !unended(failure))
			return
		}
		unreserve()
		unhold()
		unuse()
	}, nil
}

// unended reports whether the error is that of a helper that couldn't be ended: it may go on when its file system answers.
func unended(err error) bool {
	abandoned, ok := errors.AsType[*foreign.AbandonedError](err)
	return ok && !abandoned.Ended
}

// check returns an error unless the directory exists, and nothing is mounted in it. What a pod has made in it doesn't count.
func (v *Volumes) check(ctx context.Context, c directory.Claim) error {
	problem, err := v.look(ctx, c)
	if err != nil {
		return v.explain(c, err)
	}
	if problem != "" {
		return fmt.Errorf("volume %s: %s; nothing was removed", c, problem)
	}
	return nil
}

// look looks for mounts in one directory, and returns that problem. An error of the reason foreign.Missing: it doesn't exist.
func (v *Volumes) look(ctx context.Context, c directory.Claim) (problem string, err error) {
	ctx, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	answer, err := v.cfg.Helpers.Do(ctx, v.cfg.Root, foreign.Job{Survey: &tree.Survey{
		Root: v.cfg.Root, Only: c.String(), Max: 1, Mounts: true, Budget: listBudget,
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
		return fmt.Errorf("%w: %w", ErrMissing, err)
	case foreign.IsReason(err, foreign.Refused):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case unended(err):
		return fmt.Errorf("volume %s: no pod gets it until podexecd starts again, as a process may still change it: %w", c, err)
	}
	return fmt.Errorf("volume %s: %w", c, err)
}
