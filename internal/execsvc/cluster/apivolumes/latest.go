package apivolumes

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// Latest returns the claim of a running pod's volume as it was last read; false: it hasn't been yet, or there is none. It
// waits for nothing: a claim that is a minute old, or unknown, is read in the background, and the pod is woken if it has
// changed.
func (v *Volumes) Latest(pod *v1.Pod, spec *v1.Volume) (Claimed, bool) {
	name, ok := ClaimName(pod, spec)
	if !ok {
		return Claimed{}, false
	}
	at := place{pod.UID, spec.Name}
	v.mu.Lock()
	defer v.mu.Unlock()
	h := v.claims[at]
	if h == nil {
		h = v.newHeld(pod, spec, name)
		v.claims[at] = h
	}
	v.renew(h)
	return h.Claimed, h.Claim != nil
}

// Read reads the claim of a pod's volume and its PersistentVolume: both are as they are after the call, or later. While reads of the
// claim fail, it returns the last error between them.
func (v *Volumes) Read(ctx context.Context, pod *v1.Pod, spec *v1.Volume) (Claimed, error) {
	name, ok := ClaimName(pod, spec)
	if !ok {
		return Claimed{}, fmt.Errorf("volume %s refers to no claim", spec.Name)
	}
	c, began, err := v.readClaim(ctx, pod, spec, name, v.cfg.Clock.Now())
	if err != nil {
		return Claimed{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if h := v.claims[place{pod.UID, spec.Name}]; h != nil {
		v.replace(h, c, began)
	}
	return c, nil
}

// Update replaces a claim that pods use by the API server's answer to a request. The answer must not be changed afterwards.
func (v *Volumes) Update(claim *v1.PersistentVolumeClaim) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, h := range v.claims {
		if h.Claim != nil && h.Claim.UID == claim.UID {
			h.Claim, h.asOf = claim, v.cfg.Clock.Now()
		}
	}
}
