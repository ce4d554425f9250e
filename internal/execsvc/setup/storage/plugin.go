package storage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
)

var _ volume.Located = (*Storage)(nil)

// maxArgs bounds a backend's arguments, which are recorded.
const maxArgs = 64 << 10

// plugins are upstream's names of the plugins whose volumes are set up here.
var plugins = []string{"kubernetes.io/csi", "kubernetes.io/nfs", "kubernetes.io/local-volume", "kubernetes.io/iscsi"}

// Name is part of volume.Plugin. The directories of volumes have the name of the resolved plugin.
func (*Storage) Name() string { return plugins[0] }

// Plugins is part of volume.Located.
func (*Storage) Plugins() []string { return plugins }

// Takes is part of volume.Plugin.
func (s *Storage) Takes(spec *v1.Volume) bool {
	if s.cfg.Takes != nil {
		return s.cfg.Takes(spec)
	}
	return criconfig.IsPersistent(&spec.VolumeSource)
}

// Locate is part of volume.Located. A volume that is set up, or recorded, isn't resolved again: its claim can't change.
func (s *Storage) Locate(ctx context.Context, v volume.Volume) (volume.Location, error) {
	if err := s.awaitReady(ctx); err != nil {
		return volume.Location{}, err
	}
	of := podVolume{v.UID, v.Spec.Name}
	s.mu.Lock()
	t, known := s.names[of]
	known = known && s.isPublished(t)
	device := known && s.targets[t].state.isDevice(t)
	s.mu.Unlock()
	if known {
		return volume.Location{Plugin: t.Plugin, Name: t.Name, Device: device}, nil
	}
	res, err := s.resolve(ctx, &v)
	if err != nil {
		return volume.Location{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resolved[of] = res
	return volume.Location{Plugin: res.Plugin, Name: res.Name, Device: res.Device}, nil
}

// isPublished reports whether the target is published, and stays so. mu is held.
func (s *Storage) isPublished(t record.Target) bool {
	e := s.targets[t]
	return isDone(e.state.Publication(t)) && e.state.kept(t)
}

// isUsable reports whether containers may use the target. mu is held.
func (s *Storage) isUsable(t record.Target) bool { return s.isPublished(t) && !s.targets[t].unsized[t] }

// Usable is part of volume.Located.
func (s *Storage) Usable(v volume.Volume) error {
	s.mu.Lock()
	t, ok := s.names[podVolume{v.UID, v.Spec.Name}]
	if !ok || !s.isUsable(t) {
		s.mu.Unlock()
		return errors.New("it isn't mounted")
	}
	st := s.targets[t].state.clone()
	s.mu.Unlock()
	p := publishing(&st, st.Publication(t))
	if !p.Device {
		return nil
	}
	b, ok := s.cfg.Backends[st.Backend].(Devices)
	if !ok {
		return fmt.Errorf("this podexecd's backend %q has no devices", st.Backend)
	}
	return b.CheckDevice(p)
}

// resolve returns the checked volume behind a pod's volume.
func (s *Storage) resolve(ctx context.Context, v *volume.Volume) (Volume, error) {
	res, err := s.cfg.Claims.Resolve(ctx, v.Pod, writable(v.Pod, v.Spec))
	if err != nil {
		return Volume{}, err
	}
	switch {
	case res.Driver == "" || res.Handle == "" || res.Backend == "" || res.Name == "":
		return Volume{}, errors.New("the volume has no driver, handle, backend or name")
	case res.Attaches && res.UniqueName == "":
		return Volume{}, errors.New("the volume must be attached, and has no name in volumesInUse")
	case len(res.StageArgs) > maxArgs || len(res.PublishArgs) > maxArgs || len(res.Handle) > maxArgs:
		return Volume{}, fmt.Errorf("the volume's handle or attributes have more than %d bytes", maxArgs)
	case !utf8.ValidString(res.Handle + res.Driver + res.Name + res.StageArgs + res.PublishArgs):
		return Volume{}, errors.New("the volume's handle or attributes aren't UTF-8")
	}
	return res, nil
}

// writable returns the pod's volume, without readOnly if another volume of the pod has the same claim, and writes: there is one mount for both.
// Source is read-only for the one that only reads.
func writable(pod *v1.Pod, spec *v1.Volume) *v1.Volume {
	claim := spec.PersistentVolumeClaim
	if claim == nil || !claim.ReadOnly {
		return spec
	}
	for i := range pod.Spec.Volumes {
		c := pod.Spec.Volumes[i].PersistentVolumeClaim
		if c != nil && c.ClaimName == claim.ClaimName && !c.ReadOnly && needs(pod, pod.Spec.Volumes[i].Name) {
			writes := spec.DeepCopy()
			writes.PersistentVolumeClaim.ReadOnly = false
			return writes
		}
	}
	return spec
}

// SetUp is part of volume.Plugin. It returns when the volume is published. If ctx ends before that, or an attempt fails,
// the operations go on until TearDown. For a volume that is published it waits for nothing.
func (s *Storage) SetUp(ctx context.Context, v volume.Volume) error {
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	of := podVolume{v.UID, v.Spec.Name}
	s.mu.Lock()
	res, resolved := s.resolved[of]
	delete(s.resolved, of)
	t, known := s.names[of]
	done := known && s.isUsable(t)
	s.mu.Unlock()
	if done {
		if s.cfg.Sizes != nil {
			s.cfg.Sizes.Synced(v.Pod, v.Spec)
		}
		return s.renew(t)
	}
	if !resolved {
		var err error
		if res, err = s.resolve(ctx, &v); err != nil {
			return err
		}
	}
	others, err := s.others(ctx, &v, &res)
	if err != nil {
		return err
	}
	e, since, err := s.want(&v, &res, others)
	if err != nil {
		return err
	}
	t = record.Target{UID: v.UID, Plugin: res.Plugin, Name: res.Name}
	if err := s.await(ctx, e, t, since, func(st *state) bool { return isDone(st.Publication(t)) }); err != nil {
		return err
	}
	return s.size(ctx, &v, e, t)
}

// size compares the size of a volume that has been published with the claim's. Until that succeeds, no container uses it.
func (s *Storage) size(ctx context.Context, v *volume.Volume, e *entry, t record.Target) error {
	if s.cfg.Sizes == nil {
		return nil
	}
	// A driver that doesn't answer must not keep the pod's worker.
	late := fmt.Errorf("the volume is still being expanded; it goes on, and the pod waits: %w", ErrBusy)
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Timeout+s.cfg.Timeout/2, late)
	defer cancel()
	if err := s.cfg.Sizes.Mounted(ctx, v.Pod, v.Spec); err != nil {
		return &volume.OperationError{Phrase: "MountVolume.Setup failed while expanding volume", Volume: t.Name, Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(e.unsized, t)
	return nil
}

// Source is part of volume.Plugin.
func (s *Storage) Source(v volume.Volume) volume.Source {
	source := volume.Source{Path: filepath.Join(v.Dir, MountDir)}
	if v.Device {
		source = volume.Source{Path: v.Dir, Device: true}
	}
	if c := v.Spec.PersistentVolumeClaim; c != nil {
		source.ReadOnly = c.ReadOnly
	}
	b, key, p := s.source(podVolume{v.UID, v.Spec.Name})
	if b != nil && !source.Device {
		source.Path, source.Foreign = b.MountPoint(v.Dir), b.VolumeName(key)
	}
	if p == nil {
		return source
	}
	// It stays where it was published, also if podexecd has another --kubelet-dir now. A runtime would create v.Dir there,
	// and the container would write to the node's disk.
	if source.Path = p.Dir; b != nil && !p.Device {
		source.Path = b.MountPoint(p.Dir)
	}
	source.ReadOnly = source.ReadOnly || p.ReadOnly
	if r, ok := b.(Relabels); ok && s.cfg.SELinux && !p.Device && !source.ReadOnly {
		source.Own = r.Relabels(*p)
	}
	return source
}

// source returns the backend and the key of a pod's volume, and its publication. Nil: there is none.
func (s *Storage) source(of podVolume) (Backend, record.Key, *Publishing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.names[of]
	if !ok {
		return nil, record.Key{}, nil
	}
	st := &s.targets[t].state
	b := s.cfg.Backends[st.Backend]
	if p := st.Publication(t); p != nil {
		published := publishing(st, p)
		return b, st.Key, &published
	}
	return b, st.Key, nil
}

// TearDown is part of volume.Plugin. It returns when the volume isn't published for the pod any more; the rest is undone
// later. A directory of which there is no record is left to the Manager, which removes it only if it is empty and
// nothing is mounted there.
func (s *Storage) TearDown(ctx context.Context, v volume.Volume) error {
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	plugin := strings.ReplaceAll(filepath.Base(filepath.Dir(v.Dir)), "~", "/")
	return s.release(ctx, record.Target{UID: v.UID, Plugin: plugin, Name: v.Name})()
}

// Expand has the backend expand a pod's volume, and returns its answer. args are the backend's. A call without an answer
// is repeated, and Expand waits for it.
func (s *Storage) Expand(ctx context.Context, uid types.UID, name, args string) error {
	e, p, _, err := s.published(uid, name)
	if err != nil {
		return err
	}
	if len(args) > maxArgs || !utf8.ValidString(args) {
		return fmt.Errorf("the arguments of the expansion aren't at most %d bytes of UTF-8", maxArgs)
	}
	g := &expansion{target: record.Target{UID: uid, Plugin: p.Plugin, Name: p.Name}, args: args, done: make(chan error, 1)}
	s.mu.Lock()
	busy := e.state.grow != nil || e.growing != nil || s.ended || s.targets[g.target] != e || !s.isPublished(g.target)
	if !busy {
		e.state.grow = g
		s.wake(e)
	}
	s.mu.Unlock()
	if busy {
		return fmt.Errorf("expand volume %q: %w", p.Name, ErrBusy)
	}
	select {
	case err := <-g.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.ctx.Done():
		return ErrStopped
	}
}
