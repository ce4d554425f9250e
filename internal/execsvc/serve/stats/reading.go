package stats

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/serve/stats/kernel"
)

// reading is the usage at one time.
type reading struct {
	at time.Time
	// machine is nil if it can't be read.
	machine *machine
	// system are the cgroups that the summary names, tiers the cgroups that contain pods. A reading is immutable.
	system []group
	tiers  []group
	pods   []pod
	// unlisted is set if the pods couldn't be listed.
	unlisted bool
	// node, images and layers are file systems; images has the images' use of it, and layers, unless it is the same one,
	// the writable layers'. Nil, as devices, in a brief reading.
	node, images, layers *volume
	// devices are the paths of disks, by number.
	devices map[string]string
}

type machine struct {
	*kernel.Machine
	topology kernel.Topology
	identity kernel.Identity
	rate     *rate
}

// used is the usage of an object: Usage is nil if unknown. rate is nil if unknown.
type used struct {
	*kernel.Usage
	rate *rate
}

// group is a cgroup that isn't a pod's.
type group struct {
	used
	name, path string
}

type pod struct {
	used
	uid             types.UID
	namespace, name string
	created         time.Time
	// path is the path of its cgroup, empty if unknown.
	path        string
	hostNetwork bool
	network     []kernel.Interface
	sandbox     container
	containers  []container
}

type container struct {
	used
	id, name, image, path string
	created               time.Time
	// layer is the usage of its writable layer; nil if unknown.
	layer *volume
}

// volume is the use of a file system by one object.
type volume struct {
	fileSystem
	at                time.Time
	bytesUsed, inodes *uint64
}

// read takes a reading. With an error it has all readable values.
func (s *Stats) read(ctx context.Context, brief bool) (*reading, error) {
	// The reading ends before the requests that wait for it, so that they receive all but a slow runtime's values.
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout*3/4)
	defer cancel()
	r := &reading{at: s.cfg.Clock.Now()}
	var errs []error
	if m, err := s.kernel.Machine(r.at, brief); err != nil {
		errs = append(errs, fmt.Errorf("usage of the machine: %w", err))
	} else {
		r.machine = &machine{Machine: m, topology: s.topology, identity: s.identity, rate: s.rates.of("/", r.at, m.CPU.Total)}
	}
	s.readSystem(r, brief)
	listed, err := s.cfg.Pods.List(ctx)
	if err != nil {
		r.unlisted, errs = true, append(errs, fmt.Errorf("list pods: %w", err))
	}
	s.readPods(r, listed, brief)
	if !brief {
		r.devices = s.kernel.Devices()
		errs = append(errs, s.readFileSystems(ctx, r))
	}
	if !brief || r.lacks() {
		errs = append(errs, s.askRuntime(ctx, r))
	}
	r.sumUp()
	return r, errors.Join(errs...)
}

// lacks reports whether a container runs in no visible cgroup.
func (r *reading) lacks() bool {
	return slices.ContainsFunc(r.pods, func(p pod) bool {
		return p.Usage == nil || slices.ContainsFunc(p.containers, func(c container) bool { return c.Usage == nil })
	})
}

// sumUp sets the usage of pods without values to the sum of their containers'.
func (r *reading) sumUp() {
	for i := range r.pods {
		p := &r.pods[i]
		if p.Usage != nil {
			continue
		}
		for _, c := range p.containers {
			if c.Usage == nil {
				continue
			}
			if p.Usage == nil {
				p.Usage = &kernel.Usage{At: c.At}
			}
			to, from := p.Usage, c.Usage
			to.CPU.Total, p.rate = plus(to.CPU.Total, from.CPU.Total), p.rate.plus(c.rate)
			for _, m := range []struct{ to, from **uint64 }{
				{&to.Memory.Usage, &from.Memory.Usage}, {&to.Memory.WorkingSet, &from.Memory.WorkingSet}, {&to.Memory.RSS, &from.Memory.RSS},
				{&to.Memory.Faults, &from.Memory.Faults}, {&to.Memory.MajorFaults, &from.Memory.MajorFaults}, {&to.Memory.Swap, &from.Memory.Swap},
			} {
				*m.to = plus(*m.to, *m.from)
			}
		}
	}
}

// plus returns the sum of the known values.
func plus(a, b *uint64) *uint64 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return new(*a + *b)
}

// readFileSystems reads the file systems of the node, of images and of writable layers.
func (s *Stats) readFileSystems(ctx context.Context, r *reading) error {
	var errs []error
	if on, err := s.statfs(s.cfg.RootDir); err == nil {
		r.node = &volume{fileSystem: on, at: r.at, bytesUsed: new(less(on.bytes, on.free)), inodes: new(less(on.files, on.filesFree))}
	} else if !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, fmt.Errorf("the node's file system: %w", err))
	}
	info, err := s.cfg.Images.ImageFsInfo(ctx)
	if err != nil {
		return errors.Join(append(errs, fmt.Errorf("file system of images: %w", err))...)
	}
	mounts := map[string]fileSystem{}
	if all := info.GetImageFilesystems(); len(all) > 0 {
		r.images = s.volumeOf(all[0], mounts)
		r.layers = r.images
	}
	if all := info.GetContainerFilesystems(); len(all) > 0 && r.images != nil {
		if v := s.volumeOf(all[0], mounts); v.device != r.images.device {
			r.layers = v
		}
	}
	return errors.Join(errs...)
}

func less(a, b uint64) uint64 { return a - min(a, b) }
