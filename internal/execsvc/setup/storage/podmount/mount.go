package podmount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/blockdevice"
	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/internal/openfile"
)

const (
	// VolumeDevices is upstream's name of the directories of block volumes.
	VolumeDevices = "volumeDevices"

	// dirMode is the kubelet's mode of the directories of volumes.
	dirMode = 0o750
	// unmountLimit is how long an unmount may take before it is forced, as with the kubelet.
	unmountLimit = time.Minute
)

// statsLimit is how long the usage of a file system may take: it is one of many. Tests replace it.
var statsLimit = 10 * time.Second

// errDir is the error of a directory that package storage has from elsewhere.
var errDir = errors.New("it isn't a volume's directory in a pod's directory")

// Mount mounts a volume at its directory in the pod's directory, which it makes. volume is the name for package foreign.
// m.Target is set here.
func Mount(ctx context.Context, helpers *foreign.Helpers, volume string, p *storage.Publishing, m foreign.Mount) error {
	pods, name, err := split(p)
	if err == nil {
		err = Make(pods, name)
	}
	if err != nil {
		return &storage.Error{Outcome: storage.NotSent, Err: err}
	}
	m.Target = p.Dir
	_, err = helpers.Do(ctx, volume, foreign.Job{Mount: &m})
	return Answered(err)
}

// Unmount unmounts a volume. If that takes too long, the kernel is told to give up the requests to its server.
func Unmount(ctx context.Context, helpers *foreign.Helpers, volume, target string) error {
	limited, cancel := context.WithTimeoutCause(ctx, unmountLimit, fmt.Errorf("it took longer than %s", unmountLimit))
	defer cancel()
	_, err := helpers.Do(limited, volume, foreign.Job{Unmount: &foreign.Unmount{Target: target}})
	if hangs(err) && ctx.Err() == nil {
		_, err = helpers.Do(ctx, volume, foreign.Job{Unmount: &foreign.Unmount{Target: target, Force: true}})
	}
	return Undone(err)
}

// Undone is Answered of an unmount, or of the release of a block device.
func Undone(err error) error {
	if busy, ok := errors.AsType[*foreign.BusyError](err); ok && busy.Target != "" {
		// Nothing is mounted now, and an earlier mount may follow: it is undone again, and its directory stays.
		return &storage.Error{Outcome: storage.Uncertain, Err: err}
	}
	return Answered(err)
}

// hangs reports whether an error shows that the server doesn't answer. That all helpers are busy doesn't: to force an unmount then would
// lose what other pods write to a server that is well.
func hangs(err error) bool {
	_, abandoned := errors.AsType[*foreign.AbandonedError](err)
	return abandoned
}

// Answered returns the error of a helper with what it means for its volume.
func Answered(err error) error {
	if err == nil {
		return nil
	}
	out := storage.Uncertain
	if left, ok := errors.AsType[*foreign.AbandonedError](err); ok && !left.Ended {
		out = storage.Unanswered
	}
	busy, isBusy := errors.AsType[*foreign.BusyError](err)
	switch {
	case isBusy && busy.Target != "":
		// An earlier mount hasn't ended. If no pod wants the volume, it is unmounted until it has.
		out = storage.Unrepeatable
	case isBusy, errors.Is(err, foreign.ErrClosed):
		out = storage.NotSent
	case foreign.IsUnchanged(err):
		out = storage.Final
	}
	return &storage.Error{Outcome: out, Err: err}
}

// split returns the directory of pods, and the volume's directory beneath it.
func split(p *storage.Publishing) (pods, name string, err error) {
	if err := podmeta.CheckUID(p.UID); err != nil {
		return "", "", err
	}
	name = filepath.Join(string(p.UID), "volumes", strings.ReplaceAll(p.Plugin, "/", "~"), p.Name)
	pods, ok := strings.CutSuffix(p.Dir, "/"+name)
	if !ok || p.Name != filepath.Base(p.Name) || p.Name == "." || p.Name == ".." {
		return "", "", fmt.Errorf("%s: %w", p.Dir, errDir)
	}
	return pods, name, nil
}

// DevicePlace returns where the link of a published block device is, in the pod's directory.
func DevicePlace(kubeletDir string, p *storage.Publishing) (blockdevice.Place, error) {
	if err := podmeta.CheckUID(p.UID); err != nil {
		return blockdevice.Place{}, err
	}
	at := blockdevice.Place{
		Base: kubeletdir.PodsDir(kubeletDir), Dir: filepath.Join(string(p.UID), VolumeDevices, strings.ReplaceAll(p.Plugin, "/", "~")), Name: p.Name,
	}
	if p.Name != filepath.Base(p.Name) || p.Name == "." || p.Name == ".." || p.Dir != filepath.Join(at.Base, at.Dir, at.Name) {
		return at, fmt.Errorf("%s isn't the place of a block volume in a pod's directory", p.Dir)
	}
	return at, nil
}

// Make makes a directory beneath base, and what leads to it. A link on the way is an error, and so is a mount; the last name
// may be a mount point.
func Make(base, name string) error {
	for at := range parents(name) {
		parent, err := open(base, filepath.Dir(at))
		if err != nil {
			return err
		}
		err = unix.Mkdirat(int(parent.Fd()), filepath.Base(at), dirMode)
		parent.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return &fs.PathError{Op: "mkdir", Path: filepath.Join(base, at), Err: err}
		}
	}
	return nil
}

// parents returns the paths that lead to a relative one, and that one itself.
func parents(name string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		at := ""
		for part := range strings.SplitSeq(name, "/") {
			if at = filepath.Join(at, part); !yield(at) {
				return
			}
		}
	}
}

// open opens a directory beneath base; ".": base itself.
func open(base, name string) (*os.File, error) {
	if name == "." {
		return os.Open(base)
	}
	dir, err := openfile.OpenDirBeneath(base, name)
	if errors.Is(err, openfile.ErrOutside) {
		return nil, fmt.Errorf("%s: a mount or a link is in its place; nothing is mounted below it: %w", filepath.Join(base, name), err)
	}
	return dir, err
}

// Remove removes an empty directory beneath base. A missing one is no error, and a mount point is one.
func Remove(base, name string) error {
	parent, err := open(base, filepath.Dir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	if err := unix.Unlinkat(int(parent.Fd()), filepath.Base(name), unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "rmdir", Path: filepath.Join(base, name), Err: err}
	}
	return nil
}

// Stats returns the usage of a volume's file system.
func Stats(ctx context.Context, helpers *foreign.Helpers, volume, dir string) (storage.Stats, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, statsLimit, fmt.Errorf("it took longer than %s", statsLimit))
	defer cancel()
	a, err := helpers.Do(ctx, volume, foreign.Job{Look: dir})
	if err != nil {
		return storage.Stats{}, fmt.Errorf("get the statistics of volume %s: %w", volume, err)
	}
	u := a.Usage
	return storage.Stats{
		Available: u.Available, Capacity: u.Capacity, Used: max(0, u.Capacity-u.Free),
		Inodes: u.Inodes, InodesFree: u.InodesFree, InodesUsed: max(0, u.Inodes-u.InodesFree),
	}, nil
}
