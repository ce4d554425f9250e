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
	// due is when it is read again, and reading is set while it is.
	due     time.Time
	reading bool
}

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
	if c, ok := v.known(pod, spec, at, name); ok {
		return c, checkUse(pod, spec, c.Volume)
	}
	c, err := v.readClaim(ctx, pod, spec, name)
	if err != nil {
		v.follow(pod, spec, at, name)
		return Claimed{}, fmt.Errorf("error processing PVC %s/%s: %w", pod.Namespace, name, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.claims[at] = &held{Claimed: c, due: v.cfg.Clock.Now().Add(jittered(refreshAfter))}
	return c, checkUse(pod, spec, c.Volume)
}

// known returns the claim as it was last read for this pod, and has it read again if it is old.
func (v *Volumes) known(pod *v1.Pod, spec *v1.Volume, at place, name string) (Claimed, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	h := v.claims[at]
	if h == nil || h.Claim == nil {
		return Claimed{}, false
	}
	v.renew(h, pod, spec, at, name)
	return h.Claimed, true
}

// renew has a claim read again if it is old. mu is held.
func (v *Volumes) renew(h *held, pod *v1.Pod, spec *v1.Volume, at place, name string) {
	if !h.reading && !v.closed && v.cfg.Clock.Now().After(h.due) {
		h.reading = true
		v.group.Go(func() { v.refresh(pod, spec, at, name) })
	}
}

// refresh reads the claim of a pod again. What can't be read changes nothing: the pod runs.
func (v *Volumes) refresh(pod *v1.Pod, spec *v1.Volume, at place, name string) {
	c, err := v.readClaim(v.ctx, pod, spec, name)
	v.mu.Lock()
	h := v.claims[at]
	if h == nil {
		v.mu.Unlock()
		return
	}
	h.reading, h.due = false, v.cfg.Clock.Now().Add(jittered(refreshAfter))
	changed := err == nil && (h.Claim == nil || c.Claim.ResourceVersion != h.Claim.ResourceVersion || c.Volume.ResourceVersion != h.Volume.ResourceVersion)
	if err == nil {
		h.Claimed = c
	}
	v.mu.Unlock()
	if changed {
		v.cfg.Wake(at.uid)
	}
}

// follow reads a claim that can't be used yet until it can, or until its pod is dropped, and wakes the pod.
func (v *Volumes) follow(pod *v1.Pod, spec *v1.Volume, at place, name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed || v.followed[at] != nil || len(v.followed) >= maxFollowed {
		return
	}
	ctx, cancel := context.WithCancel(v.ctx)
	v.followed[at] = cancel
	v.group.Go(func() {
		defer func() {
			cancel()
			v.mu.Lock()
			defer v.mu.Unlock()
			delete(v.followed, at)
		}()
		pauses := newPauses()
		for pause(ctx, v.cfg.Clock, pauses.Step()) {
			if _, err := v.readClaim(ctx, pod, spec, name); err == nil {
				v.cfg.Wake(at.uid)
				return
			}
		}
	})
}

// readClaim reads a claim and its PersistentVolume, and checks that they belong together and to the pod. Its errors are
// the kubelet's.
func (v *Volumes) readClaim(ctx context.Context, pod *v1.Pod, spec *v1.Volume, name string) (Claimed, error) {
	claim, err := v.pvcs.read(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: name})
	switch {
	case err != nil:
		return Claimed{}, fmt.Errorf("failed to fetch PVC from API server: %w", err)
	case claim.DeletionTimestamp != nil && !slices.Contains(claim.Finalizers, protection):
		return Claimed{}, errors.New("PVC is being deleted")
	case claim.Status.Phase != v1.ClaimBound:
		return Claimed{}, errors.New("PVC is not bound")
	case claim.Spec.VolumeName == "":
		return Claimed{}, errors.New("PVC has empty pvc.Spec.VolumeName")
	case spec.Ephemeral != nil && !metav1.IsControlledBy(claim, pod):
		return Claimed{}, fmt.Errorf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", claim.Namespace, claim.Name, pod.Namespace, pod.Name)
	}
	volume, err := v.pvs.read(ctx, types.NamespacedName{Name: claim.Spec.VolumeName})
	switch {
	case err != nil:
		return Claimed{}, fmt.Errorf("failed to fetch PV %s from API server: %w", claim.Spec.VolumeName, err)
	case volume.Spec.ClaimRef == nil:
		return Claimed{}, fmt.Errorf("found PV object %s but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim", volume.Name)
	case volume.Spec.ClaimRef.UID != claim.UID:
		return Claimed{}, fmt.Errorf("found PV object %s but its pv.Spec.ClaimRef.UID %s does not point to claim.UID %s",
			volume.Name, volume.Spec.ClaimRef.UID, claim.UID)
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
