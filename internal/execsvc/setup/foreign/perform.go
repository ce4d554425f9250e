package foreign

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign/tree"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/blockdevice"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/ownership"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/subpath"
)

// errNoJob is the error of a job of another version.
var errNoJob = errors.New("the helper doesn't have this job")

// do does the job, in the helper.
func do(ctx context.Context, job *Job) (Answer, error) {
	switch {
	case job.Group != nil:
		return Answer{}, ownership.Set(ctx, *job.Group)
	case job.SubPath != nil:
		at, err := subpath.Prepare(ctx, subpath.Request{
			Root: job.SubPath.Root, SubPath: job.SubPath.SubPath, Target: job.SubPath.Target, ReadOnly: job.SubPath.ReadOnly, Mounter: kernel{},
		})
		return Answer{Path: at}, err
	case job.CleanSubPaths != "":
		return Answer{}, subpath.CleanUp(job.CleanSubPaths, kernel{})
	case job.Look != "":
		return look(job.Look)
	case job.Mount != nil:
		return Answer{}, job.Mount.do()
	case job.Unmount != nil:
		return Answer{}, job.Unmount.do()
	case job.MapDevice != nil:
		return Answer{}, blockdevice.MapPath(job.MapDevice.Path, job.MapDevice.Tag, job.MapDevice.Links)
	case job.UnmapDevice != nil:
		return Answer{}, blockdevice.Unmap(job.UnmapDevice.Tag, job.UnmapDevice.Links)
	case job.Initiator != nil:
		answer, err := job.Initiator.Do()
		return Answer{Initiator: answer}, err
	default:
		return onTree(ctx, job)
	}
}

// onTree does a job of package tree.
func onTree(ctx context.Context, job *Job) (a Answer, err error) {
	switch {
	case job.Survey != nil:
		a.Surveyed, err = job.Survey.Do(ctx)
		return a, err
	case job.Remove != nil:
		return a, job.Remove.Do()
	case job.Sweep != nil:
		return a, job.Sweep.Do()
	case job.Export != nil:
		data := os.NewFile(dataFD, "the archive")
		a.Moved, err = job.Export.Do(data)
		return a, errors.Join(err, data.Close())
	case job.Import != nil:
		data := os.NewFile(dataFD, "the archive")
		a.Moved, err = job.Import.Do(ctx, &tree.Unframe{From: data})
		return a, errors.Join(err, data.Close())
	default:
		return Answer{}, errNoJob
	}
}

// look stats a file and its file system. The second call reaches a server also if the first one has its answer in a cache.
func look(path string) (Answer, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return Answer{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return Answer{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	a := Answer{Kind: OtherFile, Usage: Usage{
		Capacity: size(fs.Blocks, fs.Frsize), Available: size(fs.Bavail, fs.Frsize), Free: size(fs.Bfree, fs.Frsize),
		Inodes: size(fs.Files, 1), InodesFree: size(fs.Ffree, 1),
	}}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		a.Kind = Directory
	case unix.S_IFBLK:
		a.Kind, a.Number = BlockDevice, fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	}
	return a, nil
}

// size returns n units in bytes, at most the largest number: a file system may lie.
func size(n uint64, unit int64) int64 {
	const largest = 1<<63 - 1
	if unit <= 0 {
		return 0
	}
	if n > uint64(largest)/uint64(unit) {
		return largest
	}
	return int64(n) * unit
}

// wrap returns the error of an operation at a path.
func wrap(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", op, path, err)
}
