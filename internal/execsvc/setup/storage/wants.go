package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
)

// want records that the pod wants the volume, if neither that nor another one that it needs is kept from it. It returns the entry, and the
// number of its last failure.
func (s *Storage) want(v *volume.Volume, res *Volume, others []Volume) (*entry, int, error) {
	t := record.Target{UID: v.UID, Plugin: res.Plugin, Name: res.Name}
	if err := s.cfg.Records.Usable(res.Key); err != nil {
		return nil, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, used := s.entries[res.Key], s.inUse(v, res, others)
	switch other := s.targets[t]; {
	case s.ended:
		return nil, 0, ErrStopped
	case s.reserved[res.Key]:
		return nil, 0, fmt.Errorf("volume %s is being removed or replaced on request: %w", res.Handle, ErrBusy)
	case other != nil && other != e:
		// A PersistentVolume's handle can't change. If one was replaced, its name's directory is used up for this pod.
		return nil, 0, fmt.Errorf("%s is volume %s of driver %s already: %w", v.Dir, other.state.Handle, other.state.Driver, ErrBusy)
	case used != nil && (!res.OncePod || e == nil):
		return nil, 0, used
	case e != nil && e.state.unattached(res):
		return nil, 0, fmt.Errorf("volume %s is mounted without an attachment, for pod %s: this pod waits until that pod is gone",
			res.Handle, cmp.Or(e.state.user(v.UID), "(none any more)"))
	case e == nil && s.isFull(v.UID):
		return nil, 0, fmt.Errorf("%w: %d", ErrTooMany, len(s.entries))
	case e == nil:
		e = newEntry(newState(res.Key))
		s.entries[res.Key] = e
	}
	if err := e.state.conflict(t, podName(v), v.Spec.Name, res); err != nil {
		s.cfg.SELinuxMetrics.Conflict(res.pluginAndDriver(), res.AccessMode)
		return nil, 0, err
	}
	if used != nil { // The kubelet compares the contexts first, too.
		return nil, 0, used
	}
	names := []string{v.Spec.Name}
	if had, ok := e.state.wants[t]; ok {
		names = union(had.volumes, names)
	}
	if !e.state.hasRoom(t, names) {
		return nil, 0, fmt.Errorf("%w: its pods have too many names for it", record.ErrFull)
	}
	if res.SELinuxContext != "" && len(e.state.wants) == 0 && !e.state.Mounted() {
		s.cfg.SELinuxMetrics.Admitted(res.pluginAndDriver(), res.AccessMode)
	}
	revision := e.state.revision
	e.state.setWant(t, want{volume: *res, volumes: names, dir: v.Dir, pod: podName(v)})
	e.stored = e.stored && e.state.revision == revision
	s.targets[t] = e
	s.rename(podVolume{v.UID, v.Spec.Name}, t)
	s.wake(e)
	return e, e.seq, nil
}

// isFull reports whether a pod can't have one more volume, because the node has too many. A pod with few volumes gets one all the same,
// so that one pod with many volumes doesn't keep the others from having any. mu is held.
func (s *Storage) isFull(uid types.UID) bool {
	if n := len(s.entries); n < s.cfg.MaxVolumes || n >= reserveFactor*s.cfg.MaxVolumes {
		return n >= s.cfg.MaxVolumes
	}
	has := 0
	for t := range s.targets {
		if t.UID == uid {
			has++
		}
	}
	return has >= fewVolumes
}

// rename records which target a pod's volume refers to now. If its claim was bound to another PersistentVolume while the pod waited, that
// one is given up: it would stay attached as long as the pod runs. mu is held.
func (s *Storage) rename(of podVolume, t record.Target) {
	before, had := s.names[of]
	s.names[of] = t
	if !had || before == t {
		return
	}
	for _, other := range s.names {
		if other == before {
			return
		}
	}
	s.giveUp(s.targets[before], before)
}

// podName returns the name of the volume's pod for messages.
func podName(v *volume.Volume) string { return v.Pod.Namespace + "/" + v.Pod.Name }

// drop records that no pod wants the target, and returns its entry; nil: nothing is known of it. seq is the number of
// its last failure.
func (s *Storage) drop(t record.Target) (e *entry, seq int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e = s.targets[t]
	if e == nil {
		return nil, 0
	}
	s.giveUp(e, t)
	return e, e.seq
}

// giveUp records that no pod wants the target. mu is held.
func (s *Storage) giveUp(e *entry, t record.Target) {
	if g := e.state.grow; g != nil && g.target == t {
		g.done <- errors.New("the pod's volume is torn down")
	}
	e.state.drop(t)
	s.settle(e, t)
	s.wake(e)
}

// await returns when the target is as done wants it, when an operation fails that keeps it from being so, or when ctx
// ends. The operations go on without the caller.
func (s *Storage) await(ctx context.Context, e *entry, t record.Target, since int, done func(*state) bool) error {
	// A backend that doesn't return in time must not keep the pod's worker.
	timer := s.cfg.Clock.NewTimer(s.cfg.Timeout + s.cfg.Timeout/2)
	defer timer.Stop()
	s.mu.Lock()
	delete(s.missed, t)
	s.mu.Unlock()
	for {
		s.mu.Lock()
		changed, is, device := e.changed, done(&e.state), e.state.isDevice(t)
		op, f, failed := e.failedSince(t, since)
		s.mu.Unlock()
		switch {
		case is:
			return nil
		case failed:
			return s.miss(e, t, done, explain(op, t.Name, device, f.err))
		}
		select {
		case <-changed:
		case <-timer.C():
			return s.miss(e, t, done, fmt.Errorf("%w: %s; it goes on, and the pod waits", ErrBusy, s.describe(e)))
		case <-s.ctx.Done():
			return ErrStopped
		case <-ctx.Done():
			return s.miss(e, t, done, fmt.Errorf("%w (%s)", context.Cause(ctx), s.describe(e)))
		}
	}
}

// describe says what the entry does, for messages.
func (s *Storage) describe(e *entry) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.describe(s.cfg.Clock.Now())
}

// explain returns the error for the pod, with upstream's words for the operation. Those of publish and unpublish are
// package volume's, except for devices.
func explain(op operation, name string, device bool, err error) error {
	words := map[kind]string{
		markInUse: "VerifyControllerAttachedVolume", waitAttached: "MountVolume.WaitForAttach", stage: "MountVolume.MountDevice",
		expand: "MountVolume.NodeExpandVolume", unstage: "UnmountDevice",
	}[op.kind]
	if device {
		words = map[kind]string{
			markInUse: "VerifyControllerAttachedVolume", waitAttached: "MapVolume.WaitForAttach", stage: "MapVolume.SetUpDevice",
			publish: "MapVolume.MapPodDevice", expand: "MapVolume.NodeExpandVolume", unpublish: "UnmapVolume.UnmapPodDevice",
			unstage: "UnmapDevice.TearDownDevice",
		}[op.kind]
	}
	if words == "" {
		return err
	}
	return &volume.OperationError{Operation: words, Volume: name, Err: err}
}

// Release is part of volume.Located.
func (s *Storage) Release(ctx context.Context, uid types.UID) error {
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	var targets []record.Target
	for t := range s.targets {
		if t.UID == uid {
			targets = append(targets, t)
		}
	}
	for v := range s.resolved {
		if v.uid == uid {
			delete(s.resolved, v)
		}
	}
	s.mu.Unlock()
	// All are given up before the first wait.
	waits := make([]func() error, len(targets))
	for i, t := range targets {
		waits[i] = s.release(ctx, t)
	}
	var errs []error
	for i, t := range targets {
		if err := waits[i](); err != nil {
			errs = append(errs, fmt.Errorf("volume %q: %w", t.Name, err))
		}
	}
	return errors.Join(errs...)
}

// release gives up the target. The returned function returns when it isn't published any more.
func (s *Storage) release(ctx context.Context, t record.Target) (wait func() error) {
	e, since := s.drop(t)
	if e == nil {
		return func() error { return nil }
	}
	return func() error {
		return s.await(ctx, e, t, since, func(st *state) bool { return st.Publication(t) == nil })
	}
}
