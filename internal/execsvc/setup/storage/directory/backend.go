package directory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/ownership"
	"github.com/podstream/podstream/internal/mounttable"
	"github.com/podstream/podstream/internal/openfile"
)

const (
	// BackendName is the name of the backend in the Traits of volumes, and of records.
	BackendName = "directory"
	// DriverName is the driver of the volumes' keys.
	DriverName = "podstream.io/directory"
	// PluginName is upstream's name of the plugin whose volumes are directories of the node.
	PluginName = "kubernetes.io/local-volume"
)

// podDirMode is the kubelet's mode of the directories of volumes.
const podDirMode = 0o750

var (
	_ storage.Backend  = (*Backend)(nil)
	_ storage.Relabels = (*Backend)(nil)
)

// Backend mounts the directories of claims into pods.
type Backend struct{ groups *foreign.Groups }

// NewBackend returns a Backend. Close ends its goroutines.
func NewBackend(helpers *foreign.Helpers) *Backend {
	return &Backend{foreign.NewGroups(helpers.SetGroup)}
}

// Close ends the changes of groups. No other method may be called after it.
func (b *Backend) Close() { b.groups.Close() }

// args are the PublishArgs of a volume.
type args struct {
	// Root is --volume-dir when the claim was resolved.
	Root  string `json:"root"`
	Claim Claim  `json:"claim"`
	// Group is the pod's fsGroup, by the policy.
	Group        *int64                    `json:"group,omitempty"`
	ChangePolicy v1.PodFSGroupChangePolicy `json:"changePolicy,omitempty"`
}

// Volume returns the volume of a pod's claim.
func (d Dirs) Volume(pod *v1.Pod, c Claim) (storage.Volume, error) {
	a := args{Root: d.root, Claim: c}
	if sc := pod.Spec.SecurityContext; sc != nil {
		a.Group, a.ChangePolicy = sc.FSGroup, ptr.Deref(sc.FSGroupChangePolicy, "")
	}
	text, err := json.Marshal(a)
	return storage.Volume{
		Key: record.Key{Driver: DriverName, Handle: c.String()}, Traits: record.Traits{Backend: BackendName},
		Plugin: PluginName, Name: c.Name, PublishArgs: string(text),
	}, err
}

// Relabels is part of storage.Relabels. As with the kubelet's local volumes, the runtime labels the files for each pod, also if pods share
// them.
func (*Backend) Relabels(storage.Publishing) bool { return true }

// Stage is part of storage.Backend: directories aren't staged.
func (*Backend) Stage(context.Context, storage.Staging) error { return nil }

// Unstage is part of storage.Backend.
func (*Backend) Unstage(context.Context, storage.Staging) error { return nil }

// Publish is part of storage.Backend. It creates no claim's directory.
func (b *Backend) Publish(ctx context.Context, p storage.Publishing) error {
	var a args
	if err := json.Unmarshal([]byte(p.Args), &a); err != nil {
		return notSent(fmt.Errorf("read the recorded arguments of the volume: %w", err))
	}
	from, err := New(a.Root).Open(a.Claim)
	if errors.Is(err, ErrMissing) {
		err = fmt.Errorf("%w, and it existed before: mount the file system that has it, or restore it; "+
			"if the data is lost, create an empty directory there", err)
	}
	if err != nil {
		return notSent(err)
	}
	defer from.Close()
	pods, name := placeOf(p.Dir)
	if !strings.HasPrefix(name, string(p.UID)+"/") {
		return notSent(fmt.Errorf("the volume's directory %s isn't one of pod %s", p.Dir, p.UID))
	}
	for _, dir := range []string{string(p.UID), filepath.Dir(filepath.Dir(name)), filepath.Dir(name), name} {
		if err := makeDir(pods, dir, podDirMode); err != nil {
			return notSent(err)
		}
	}
	if err := mountIn(pods, name, from); err != nil {
		return uncertain(err)
	}
	if a.Group == nil || p.ReadOnly {
		return nil
	}
	return b.setGroup(ctx, &p, &a)
}

// setGroup changes the directory to the pod's group, unless another pod has it. A change that was begun for this pod is awaited.
func (b *Backend) setGroup(ctx context.Context, p *storage.Publishing, a *args) error {
	dir := b.MountPoint(p.Dir)
	shared, err := isShared(p)
	if err == nil && (!shared || b.groups.Has(dir)) {
		err = b.groups.Change(ctx, p.Driver+"^"+p.Handle, ownership.Request{Dir: dir, Group: *a.Group, Policy: a.ChangePolicy})
	}
	if err != nil {
		return uncertain(fmt.Errorf("applyFSGroup failed for vol %s: %w", p.Handle, err))
	}
	return nil
}

// isShared reports whether another pod has the directory: its group stays then, as with the kubelet's local volumes.
func isShared(p *storage.Publishing) (bool, error) {
	at := filepath.Join(p.Dir, storage.MountDir)
	_, name := placeOf(p.Dir)
	of := strings.TrimPrefix(filepath.Join(name, storage.MountDir), string(p.UID)+"/")
	mounts, err := mounttable.Select(func(m *mounttable.Mount) bool { return strings.HasSuffix(m.Point, "/"+of) })
	if err != nil {
		return false, err
	}
	own := slices.IndexFunc(mounts, func(m mounttable.Mount) bool { return m.Point == at })
	if own < 0 {
		return false, fmt.Errorf("%s isn't in the table of mounts", at)
	}
	return slices.ContainsFunc(mounts, func(m mounttable.Mount) bool {
		return m.Point != at && m.Root == mounts[own].Root && m.Major == mounts[own].Major && m.Minor == mounts[own].Minor
	}), nil
}

// placeOf returns the directory of pods, and the path of a volume's directory below it: UID/volumes/PLUGIN/NAME.
func placeOf(dir string) (pods, name string) {
	pods = filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(dir))))
	name, _ = filepath.Rel(pods, dir) // It is below.
	return pods, name
}

// mountIn mounts an open directory in the volume's directory pods/name, unless it is mounted there.
func mountIn(pods, name string, from *os.File) error {
	parent, err := openfile.OpenDirBeneath(pods, name)
	if err != nil {
		return fmt.Errorf("open the volume's directory: %w", err)
	}
	defer parent.Close()
	path := filepath.Join(parent.Name(), storage.MountDir)
	if err := unix.Mkdirat(int(parent.Fd()), storage.MountDir, podDirMode); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("create the mount point %s: %w", path, err)
	}
	at, err := mountPoint(parent)
	if err != nil {
		return err
	}
	defer at.Close()
	var is, want unix.Stat_t
	if err := errors.Join(unix.Fstat(int(at.Fd()), &is), unix.Fstat(int(from.Fd()), &want)); err != nil {
		return fmt.Errorf("stat %s and %s: %w", path, from.Name(), err)
	}
	if is.Dev == want.Dev && is.Ino == want.Ino {
		return nil
	}
	above, err := openfile.Mount(int(parent.Fd()))
	if err != nil {
		return err
	}
	switch on, err := openfile.Mount(int(at.Fd())); {
	case err != nil:
		return err
	case on != above:
		return fmt.Errorf("%s: another file system is mounted there", path)
	}
	if err := unix.Mount(self(from), self(at), "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s at %s: %w", from.Name(), path, err)
	}
	return nil
}

// mountPoint opens the mount point in a volume's directory, or what is mounted there. A link isn't followed.
func mountPoint(parent *os.File) (*os.File, error) {
	path := filepath.Join(parent.Name(), storage.MountDir)
	fd, err := unix.Openat(int(parent.Fd()), storage.MountDir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// self returns a path that leads to an open directory, wherever it was moved to.
func self(dir *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", dir.Fd()) }

// MountPoint is part of storage.Backend.
func (*Backend) MountPoint(dir string) string { return filepath.Join(dir, storage.MountDir) }

// VolumeName is part of storage.Backend: the directory is on a file system of this node, which has no name for package foreign.
func (*Backend) VolumeName(record.Key) string { return "" }

// Unpublish is part of storage.Backend. It unmounts, and removes nothing.
func (b *Backend) Unpublish(ctx context.Context, p storage.Publishing) error {
	b.groups.Stop(ctx, b.MountPoint(p.Dir))
	pods, name := placeOf(p.Dir)
	parent, err := openfile.OpenDirBeneath(pods, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return notSent(fmt.Errorf("open the volume's directory: %w", err))
	}
	defer parent.Close()
	err = unix.Unmount(filepath.Join(self(parent), storage.MountDir), unix.UMOUNT_NOFOLLOW)
	// EINVAL: nothing is mounted there.
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return uncertain(fmt.Errorf("unmount %s: %w", filepath.Join(p.Dir, storage.MountDir), err))
	}
	return nil
}

// Expand is part of storage.Backend.
func (*Backend) Expand(context.Context, storage.Publishing, string) error {
	return notSent(fmt.Errorf("a directory has no size of its own: %w", storage.ErrNoExpand))
}

// Stats is part of storage.Backend: those of the directory's file system.
func (*Backend) Stats(_ context.Context, p storage.Publishing) (storage.Stats, error) {
	pods, name := placeOf(p.Dir)
	parent, err := openfile.OpenDirBeneath(pods, name)
	if err != nil {
		return storage.Stats{}, fmt.Errorf("get the statistics of volume %s: %w", p.Handle, err)
	}
	defer parent.Close()
	dir, err := mountPoint(parent)
	if err != nil {
		return storage.Stats{}, fmt.Errorf("get the statistics of volume %s: %w", p.Handle, err)
	}
	defer dir.Close()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &st); err != nil {
		return storage.Stats{}, fmt.Errorf("get the statistics of volume %s: %w", p.Handle, err)
	}
	//nolint:gosec // Sizes of file systems are smaller.
	available, total, unused := int64(st.Bavail)*st.Bsize, int64(st.Blocks)*st.Bsize, int64(st.Bfree)*st.Bsize
	return storage.Stats{
		Available: available, Capacity: total, Used: total - unused,
		Inodes: int64(st.Files), InodesFree: int64(st.Ffree), InodesUsed: int64(st.Files - st.Ffree), //nolint:gosec // As above.
	}, nil
}

func notSent(err error) error   { return &storage.Error{Outcome: storage.NotSent, Err: err} }
func uncertain(err error) error { return &storage.Error{Outcome: storage.Uncertain, Err: err} }
