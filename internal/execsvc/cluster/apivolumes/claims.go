package apivolumes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
)

const (
	// refreshAfter is the age at which a claim that a pod uses is read again.
	refreshAfter = time.Minute
	// maxFollowed is how many claims that can't be used yet are read again in the background. The pods of others find out
	// at their next sync.
	maxFollowed = 500
	// protection is the finalizer that keeps a claim that a pod uses: StorageObjectInUseProtection.
	protection = "kubernetes.io/pvc-protection"
)

// Claimed is a claim with its PersistentVolume. Neither must be changed.
type Claimed struct {
	Claim  *v1.PersistentVolumeClaim
	Volume *v1.PersistentVolume
}

// place is a volume of a pod.
type place struct {
	uid    types.UID
	volume string
}

// held is the claim of a pod's volume. Claimed is empty before the first reading.
type held struct {
	Claimed
	name types.NamespacedName
	// isOwned is set if the claim must be the pod's own: that of a generic ephemeral volume.
	isOwned bool
	// asOf is when the claim was as it is here.
	asOf time.Time
	// due is when it is read again, and reading is set while it is.
	due     time.Time
	reading bool
}

func (v *Volumes) newHeld(pod *v1.Pod, spec *v1.Volume, name string) *held {
	return &held{name: types.NamespacedName{Namespace: pod.Namespace, Name: name}, isOwned: spec.Ephemeral != nil}
}

// replace replaces the claim by one that was read later, and returns false if it wasn't. mu is held.
func (v *Volumes) replace(h *held, c Claimed, asOf time.Time) bool {
	if asOf.Before(h.asOf) {
		return false
	}
	h.Claimed, h.asOf, h.due = c, asOf, v.nextDue()
	return true
}

func (v *Volumes) nextDue() time.Time { return v.cfg.Clock.Now().Add(jittered(refreshAfter)) }

// ClaimName returns the name of the claim that a pod's volume refers to; false if it refers to none. A generic ephemeral
// volume's claim has the name of the pod and of the volume.
func ClaimName(pod *v1.Pod, spec *v1.Volume) (string, bool) {
	switch {
	case spec.PersistentVolumeClaim != nil:
		return spec.PersistentVolumeClaim.ClaimName, true
	case spec.Ephemeral != nil:
		return pod.Name + "-" + spec.Name, true
	default:
		return "", false
	}
}

// Claim returns the claim of a pod's volume, and its PersistentVolume. The first call for a pod reads both; later ones
// return them as last read, and read them again in the background once they are a minute old. A claim that isn't bound, or
// can't be read, is an error, in the kubelet's words; the pod is woken when that may have changed.
func (v *Volumes) Claim(ctx context.Context, pod *v1.Pod, spec *v1.Volume) (Claimed, error) {
	name, ok := ClaimName(pod, spec)
	if !ok {
		return Claimed{}, fmt.Errorf("volume %s refers to no claim", spec.Name)
	}
	at := place{pod.UID, spec.Name}
	if c, ok := v.known(at); ok {
		return c, checkUse(pod, spec, c.Volume)
	}
	// A read that has just begun is new enough: many pods of one claim start at a time.
	since := v.cfg.Clock.Now().Add(-firstPause)
	c, began, err := v.readClaim(ctx, pod, spec, name, since)
	if err != nil {
		v.follow(pod, spec, at, name, since)
		return Claimed{}, fmt.Errorf("error processing PVC %s/%s: %w", pod.Namespace, name, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	h := v.claims[at]
	if h == nil {
		h = v.newHeld(pod, spec, name)
		v.claims[at] = h
	}
	v.replace(h, c, began)
	return h.Claimed, checkUse(pod, spec, h.Volume)
}

// known returns the claim as it was last read for this pod, and has it read again if it is old.
func (v *Volumes) known(at place) (Claimed, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	h := v.claims[at]
	if h == nil || h.Claim == nil {
		return Claimed{}, false
	}
	v.renew(h)
	return h.Claimed, true
}

// renew has a claim read again if it is old. mu is held.
func (v *Volumes) renew(h *held) {
	now := v.cfg.Clock.Now()
	if h.reading || v.closed || !now.After(h.due) {
		return
	}
	since := now.Add(-firstPause)
	if h.asOf.After(since) {
		since = h.asOf
	}
	h.reading = true
	v.group.Go(func() { v.refresh(h, since) })
}

// refresh reads a claim again, for all pods that use it. What can't be read changes nothing: they run.
func (v *Volumes) refresh(h *held, since time.Time) {
	got := v.claimed.read(v.ctx, h.name, since, isUsable)
	v.mu.Lock()
	h.reading, h.due = false, v.nextDue()
	var changed []types.UID
	for at, other := range v.claims {
		if other.name != h.name || got.began.IsZero() {
			continue
		}
		before := other.Claimed
		if checkOwner(at.uid, other.isOwned, got.object.Claim) != nil || got.err != nil {
			other.due = v.nextDue()
			continue
		}
		c := got.object
		if v.replace(other, c, got.began) && (before.Claim == nil || c.Claim.ResourceVersion != before.Claim.ResourceVersion ||
			c.Volume.ResourceVersion != before.Volume.ResourceVersion) {
			changed = append(changed, at.uid)
		}
	}
	v.mu.Unlock()
	for _, uid := range changed {
		v.cfg.Wake(uid)
	}
}

// followed is a pod's wait for a claim that can't be used yet.
type followed struct {
	name types.NamespacedName
	waiter[Claimed]
}

// follow has a claim that can't be used yet read until it can, or until its pod is dropped, and wakes the pod.
func (v *Volumes) follow(pod *v1.Pod, spec *v1.Volume, at place, name string, since time.Time) {
	h := v.newHeld(pod, spec, name)
	f := &followed{name: h.name}
	f.since = since
	var c Claimed
	f.enough = func(object Claimed, err error) bool {
		c = object
		return err == nil && checkOwner(at.uid, h.isOwned, object.Claim) == nil
	}
	f.done = func() { v.usable(at, f, h, c) }
	v.mu.Lock()
	full := v.closed || v.followed[at] != nil || len(v.followed) >= maxFollowed
	if !full {
		v.followed[at] = f
	}
	v.mu.Unlock()
	if full {
		return
	}
	v.claimed.wait(f.name, &f.waiter, false)
	v.mu.Lock()
	dropped := v.followed[at] != f
	v.mu.Unlock()
	if dropped {
		v.claimed.leave(f.name, &f.waiter)
	}
}

// usable is called when a claim that was followed can be used.
func (v *Volumes) usable(at place, f *followed, h *held, c Claimed) {
	v.mu.Lock()
	if v.followed[at] != f {
		v.mu.Unlock()
		return // The pod was dropped.
	}
	delete(v.followed, at)
	if known := v.claims[at]; known != nil {
		h = known
	}
	v.claims[at] = h
	v.replace(h, c, f.since)
	v.mu.Unlock()
	v.cfg.Wake(at.uid)
}

// readClaim reads a claim and its PersistentVolume, not earlier than since, and checks that they belong together and to the pod. It
// returns when the read began. Its errors are the kubelet's.
func (v *Volumes) readClaim(ctx context.Context, pod *v1.Pod, spec *v1.Volume, name string, since time.Time) (Claimed, time.Time, error) {
	got := v.claimed.read(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: name}, since, func(c Claimed, err error) bool {
		return err == nil && checkOwner(pod.UID, spec.Ephemeral != nil, c.Claim) == nil
	})
	if checkOwner(pod.UID, spec.Ephemeral != nil, got.object.Claim) != nil {
		return Claimed{}, got.began, fmt.Errorf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", pod.Namespace, name, pod.Namespace, pod.Name)
	}
	if got.err != nil {
		return Claimed{}, got.began, got.err
	}
	return got.object, got.began, nil
}

func isUsable(_ Claimed, err error) bool { return err == nil }

var errNotOwner = errors.New("pod is not owner")

// checkOwner returns an error if the claim must be the pod's own and isn't. A nil claim is none.
func checkOwner(pod types.UID, isOwned bool, claim *v1.PersistentVolumeClaim) error {
	if !isOwned || claim == nil {
		return nil
	}
	if owner := metav1.GetControllerOf(claim); owner == nil || owner.UID != pod {
		return errNotOwner
	}
	return nil
}

// getBound reads a claim and its PersistentVolume, and checks that they belong together. With an error, it returns the claim
// if that is bound.
func (v *Volumes) getBound(ctx context.Context, name types.NamespacedName) (Claimed, error) {
	claim, err := v.getClaim(ctx, name)
	switch {
	case err != nil:
		return Claimed{}, fmt.Errorf("failed to fetch PVC from API server: %w", err)
	case claim.DeletionTimestamp != nil && !slices.Contains(claim.Finalizers, protection):
		return Claimed{}, errors.New("PVC is being deleted")
	case claim.Status.Phase != v1.ClaimBound:
		return Claimed{}, errors.New("PVC is not bound")
	case claim.Spec.VolumeName == "":
		return Claimed{}, errors.New("PVC has empty pvc.Spec.VolumeName")
	}
	volume, err := v.getVolume(ctx, types.NamespacedName{Name: claim.Spec.VolumeName})
	switch {
	case err != nil:
		err = fmt.Errorf("failed to fetch PV %s from API server: %w", claim.Spec.VolumeName, err)
	case volume.Spec.ClaimRef == nil:
		err = fmt.Errorf("found PV object %s but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim", volume.Name)
	case volume.Spec.ClaimRef.UID != claim.UID:
		err = fmt.Errorf("found PV object %s but its pv.Spec.ClaimRef.UID %s does not point to claim.UID %s",
			volume.Name, volume.Spec.ClaimRef.UID, claim.UID)
	}
	if err != nil {
		return Claimed{Claim: claim}, err
	}
	return Claimed{Claim: claim, Volume: volume}, nil
}

// checkUse returns an error if a container uses the volume in another mode than its own.
func checkUse(pod *v1.Pod, spec *v1.Volume, volume *v1.PersistentVolume) error {
	mode := v1.PersistentVolumeFilesystem
	if m := volume.Spec.VolumeMode; m != nil {
		mode = *m
	}
	mounts, devices := criconfig.VolumeModes(pod, spec.Name)
	switch {
	case mounts && mode != v1.PersistentVolumeFilesystem:
		return fmt.Errorf("volume %s has volumeMode %s, but is specified in volumeMounts", spec.Name, mode)
	case devices && mode != v1.PersistentVolumeBlock:
		return fmt.Errorf("volume %s has volumeMode %s, but is specified in volumeDevices", spec.Name, mode)
	}
	return nil
}
