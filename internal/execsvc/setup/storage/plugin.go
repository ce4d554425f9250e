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
	known = known && s.isUsable(t)
	s.mu.Unlock()
	if known {
		return volume.Location{Plugin: t.Plugin, Name: t.Name}, nil
	}
	res, err := s.resolve(ctx, &v)
	if err != nil {
		return volume.Location{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resolved[of] = res
	return volume.Location{Plugin: res.Plugin, Name: res.Name}, nil
}

// isUsable reports whether the target is published, and stays so. mu is held.
func (s *Storage) isUsable(t record.Target) bool {
	e := s.targets[t]
	return isDone(e.state.Publication(t)) && e.state.kept(t)
}

// Usable is part of volume.Located.
func (s *Storage) Usable(v volume.Volume) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.names[podVolume{v.UID, v.Spec.Name}]; !ok || !s.isUsable(t) {
		return errors.New("it isn't mounted")
	}
	return nil
}

// resolve returns the checked volume behind a pod's volume.
func (s *Storage) resolve(ctx context.Context, v *volume.Volume) (Volume, error) {
	res, err := s.cfg.Claims.Resolve(ctx, v.Pod, v.Spec)
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

// SetUp is part of volume.Plugin. It returns when the volume is published. If ctx ends before that, or an attempt fails,
// the operations go on until TearDown.
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
		return nil
	}
	if !resolved {
		var err error
		if res, err = s.resolve(ctx, &v); err != nil {
			return err
		}
	}
	e, since, err := s.want(&v, &res)
	if err != nil {
		return err
	}
	t = record.Target{UID: v.UID, Plugin: res.Plugin, Name: res.Name}
	return s.await(ctx, e, t, since, func(st *state) bool { return isDone(st.Publication(t)) })
}

// Source is part of volume.Plugin.
func (s *Storage) Source(v volume.Volume) volume.Source {
	source := volume.Source{Path: v.Dir}
	if c := v.Spec.PersistentVolumeClaim; c != nil {
		source.ReadOnly = c.ReadOnly
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.names[podVolume{v.UID, v.Spec.Name}]; ok {
		st := &s.targets[t].state
		if p := st.Publication(t); p != nil {
			source.ReadOnly = source.ReadOnly || p.ReadOnly
		}
		if b := s.cfg.Backends[st.Backend]; b != nil {
			source.Path, source.Foreign = b.MountPoint(v.Dir), b.VolumeName(st.Key)
		}
	}
	return source
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

// published returns the pod's volume, if it is published now.
func (s *Storage) published(uid types.UID, name string) (*entry, Publishing, Backend, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.names[podVolume{uid, name}]
	if !ok || !isDone(s.targets[t].state.Publication(t)) {
		return nil, Publishing{}, nil, fmt.Errorf("volume %q isn't set up", name)
	}
	e := s.targets[t]
	b := s.cfg.Backends[e.state.Backend]
	if b == nil {
		return nil, Publishing{}, nil, fmt.Errorf("this podexecd has no backend %q", e.state.Backend)
	}
	st := e.state.clone()
	return e, publishing(&st, st.Publication(t)), b, nil
}

// Stats returns the usage of a pod's volume. name is the name in the pod's spec.
func (s *Storage) Stats(ctx context.Context, uid types.UID, name string) (Stats, error) {
	_, p, b, err := s.published(uid, name)
	if err != nil {
		return Stats{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	return b.Stats(ctx, p)
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
	busy := e.state.grow != nil || e.growing != nil || s.ended || s.targets[g.target] != e || !s.isUsable(g.target)
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
