package manifest

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/podstream/podstream/internal/manifest/validate"
)

// claim adds the PersistentVolumeClaim of one document to the origin, unless there is an Error finding.
func (p *parser) claim(tree map[string]any, doubled []doubledKey, r *report) {
	c := &v1.PersistentVolumeClaim{}
	if !p.decodeObject(p.stateless(tree, r), doubled, c, ClaimKind, r) {
		return
	}
	adoptObject(&c.ObjectMeta, ClaimKind, r)
	if c.Spec.VolumeMode == nil {
		c.Spec.VolumeMode = new(v1.PersistentVolumeFilesystem)
	}
	p.acceptObject(append(validate.ObjectMeta(&c.ObjectMeta), validate.Claim(c)...), r, func() (*Object, error) { return NewClaim(c) })
}

// volume adds the PersistentVolume of one document to the origin, unless there is an Error finding.
func (p *parser) volume(tree map[string]any, doubled []doubledKey, r *report) {
	v := &v1.PersistentVolume{}
	if !p.decodeObject(p.stateless(tree, r), doubled, v, VolumeKind, r) {
		return
	}
	adoptObject(&v.ObjectMeta, VolumeKind, r)
	if v.Spec.VolumeMode == nil {
		v.Spec.VolumeMode = new(v1.PersistentVolumeFilesystem)
	}
	if v.Spec.PersistentVolumeReclaimPolicy == "" {
		v.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain
	}
	p.acceptObject(append(validate.ObjectMeta(&v.ObjectMeta), validate.Volume(v)...), r, func() (*Object, error) { return NewVolume(v) })
}

// driver adds the CSIDriver of one document to the origin, unless there is an Error finding.
func (p *parser) driver(tree map[string]any, doubled []doubledKey, r *report) {
	d := &storagev1.CSIDriver{}
	if !p.decodeObject(tree, doubled, d, DriverKind, r) {
		return
	}
	adoptObject(&d.ObjectMeta, DriverKind, r)
	setDriverDefaults(&d.Spec)
	p.acceptObject(append(validate.ObjectMeta(&d.ObjectMeta), validate.Driver(d)...), r, func() (*Object, error) { return NewDriver(d) })
}

// stateless returns a document without its status: what a cluster has found of an object means nothing in a manifest.
func (p *parser) stateless(tree map[string]any, r *report) map[string]any {
	status, ok := tree["status"]
	if !ok {
		return tree
	}
	if !isEmpty(status) {
		r.warnf("status", "is ignored: it means nothing in a manifest")
	}
	bare := make(map[string]any, len(tree))
	for key, value := range tree {
		if key != "status" {
			bare[key] = value
		}
	}
	return bare
}

// setDriverDefaults sets the API server's defaults of a CSIDriver that decide how a node mounts its volumes.
func setDriverDefaults(s *storagev1.CSIDriverSpec) {
	if s.AttachRequired == nil {
		s.AttachRequired = new(true)
	}
	if s.PodInfoOnMount == nil {
		s.PodInfoOnMount = new(false)
	}
	if s.FSGroupPolicy == nil {
		s.FSGroupPolicy = new(storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	}
	if len(s.VolumeLifecycleModes) == 0 {
		s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
}

// Claims returns the claims that a pod refers to, in order, each once.
func Claims(pod *v1.Pod) []ObjectKey {
	var keys []ObjectKey
	for i := range pod.Spec.Volumes {
		if c := pod.Spec.Volumes[i].PersistentVolumeClaim; c != nil && c.ClaimName != "" {
			keys = append(keys, ObjectKey{ClaimKind, pod.Namespace, c.ClaimName})
		}
	}
	slices.SortFunc(keys, ObjectKey.Compare)
	return slices.Compact(keys)
}

// Needs returns the object that a node needs in addition to this one: a claim's PersistentVolume, and the CSIDriver of
// that. It is false if there is none.
func (o *Object) Needs() (ObjectKey, bool) {
	switch {
	case o.Claim != nil && o.Claim.Spec.VolumeName != "":
		return ObjectKey{Kind: VolumeKind, Name: o.Claim.Spec.VolumeName}, true
	case o.Volume != nil && o.Volume.Spec.CSI != nil:
		return ObjectKey{Kind: DriverKind, Name: o.Volume.Spec.CSI.Driver}, true
	}
	return ObjectKey{}, false
}
