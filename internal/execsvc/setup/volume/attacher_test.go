package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/internal/openfile"
	"github.com/podstream/podstream/internal/roottest"
)

// attacher is a Located plugin: the volume of claim C is the device's directory, bound at its own directory's mount.
type attacher struct {
	device string
	// foreign is the Source's Foreign.
	foreign string
	// tearDown is TearDown. Nil: it unmounts the volume.
	tearDown func(v Volume) error
	released *[]types.UID
	// waits blocks Locate of claims with that prefix until it is closed.
	waits chan struct{}
}

func (attacher) Name() string { return "example.com/attacher" }

func (attacher) Plugins() []string { return []string{"kubernetes.io/csi"} }

func (attacher) Takes(spec *v1.Volume) bool { return spec.PersistentVolumeClaim != nil }

func (a attacher) Source(v Volume) Source {
	return Source{Path: filepath.Join(v.Dir, "mount"), Foreign: a.foreign}
}

func (attacher) Pods() []types.UID { return []types.UID{"known"} }

func (attacher) Usable(v Volume) error { return mountedAt(filepath.Join(v.Dir, "mount")) }

func (a attacher) Locate(ctx context.Context, v Volume) (Location, error) {
	claim := v.Spec.PersistentVolumeClaim.ClaimName
	switch {
	case strings.HasPrefix(claim, "slow"):
		select {
		case <-a.waits:
		case <-ctx.Done():
			return Location{}, ctx.Err()
		}
	case strings.HasPrefix(claim, "bad"):
		close(a.waits)
		return Location{}, errors.New(claim)
	}
	return Location{Plugin: "kubernetes.io/csi", Name: "pv-" + claim}, nil
}

func (a attacher) SetUp(_ context.Context, v Volume) error {
	if a.device == "" {
		return &OperationError{Operation: "MountVolume.MountDevice", Volume: v.Name, Err: errors.New("no device")}
	}
	target := filepath.Join(v.Dir, "mount")
	if err := os.MkdirAll(target, dirMode); err != nil || mountedAt(target) == nil {
		return err
	}
	return unix.Mount(a.device, target, "", unix.MS_BIND, "")
}

func (a attacher) TearDown(_ context.Context, v Volume) error {
	if a.tearDown != nil {
		return a.tearDown(v)
	}
	return unix.Unmount(filepath.Join(v.Dir, "mount"), unix.UMOUNT_NOFOLLOW)
}

func (a attacher) Release(_ context.Context, uid types.UID) error {
	if a.released != nil {
		*a.released = append(*a.released, uid)
	}
	return nil
}

// mountedAt returns an error if nothing is mounted at the directory.
func mountedAt(dir string) error {
	var numbers []string
	for _, path := range []string{dir, filepath.Dir(dir)} {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		number, err := openfile.Mount(int(f.Fd()))
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		numbers = append(numbers, number)
	}
	if numbers[0] == numbers[1] {
		return errors.New("it isn't mounted")
	}
	return nil
}

func claimVolume(name string) v1.Volume {
	source := v1.PersistentVolumeClaimVolumeSource{ClaimName: name}
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &source}}
}

// attached is a Manager with a pod u1 that has the claim c and an emptyDir e, set up. device has a canary.
type attached struct {
	*Manager
	pod                 *v1.Pod
	device, canary, dir string
}

func newAttached(t *testing.T, a attacher) attached {
	t.Helper()
	roottest.Need(t, "mounting")
	base := t.TempDir()
	at := attached{device: filepath.Join(base, "device"), pod: podWith("u1", claimVolume("c"), emptyDirVolume("e", v1.EmptyDirVolumeSource{}))}
	at.canary = filepath.Join(at.device, "canary")
	// The device has an empty directory of the name that is removed from volumes' directories.
	if err := os.MkdirAll(filepath.Join(at.device, mountName), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, at.canary, "alive")
	a.device = at.device
	at.Manager = New(Config{PodDirs: kubeletdir.Pods{Current: filepath.Join(base, "pods")}, Plugins: []Plugin{a}})
	at.dir = filepath.Join(at.podDirs.Current, "u1/volumes/kubernetes.io~csi/pv-c")
	unmountAfter(t, filepath.Join(at.dir, mountName))
	setUp(t, at.Manager, at.pod)
	return at
}
