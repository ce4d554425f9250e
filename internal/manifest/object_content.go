package manifest

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Content is the object of any kind.
type Content interface {
	runtime.Object
	metav1.Object
	Size() int
	Marshal() ([]byte, error)
}

// Content returns the object, which is immutable.
func (o *Object) Content() Content {
	switch {
	case o.Secret != nil:
		return o.Secret
	case o.Claim != nil:
		return o.Claim
	case o.Volume != nil:
		return o.Volume
	case o.Driver != nil:
		return o.Driver
	}
	return o.ConfigMap
}

// WithKind returns the object with its apiVersion and kind, which the items of an API server's list lack. It must not be
// changed.
func (o *Object) WithKind() Content {
	var c Content
	switch {
	case o.Secret != nil:
		s := *o.Secret
		c = &s
	case o.Claim != nil:
		s := *o.Claim
		c = &s
	case o.Volume != nil:
		s := *o.Volume
		c = &s
	case o.Driver != nil:
		s := *o.Driver
		c = &s
	default:
		s := *o.ConfigMap
		c = &s
	}
	c.GetObjectKind().SetGroupVersionKind(o.Kind().GroupVersionKind())
	return c
}

// NewClaim is NewConfigMap for a PersistentVolumeClaim.
func NewClaim(c *v1.PersistentVolumeClaim) (*Object, error) {
	if err := checkObjectSize(c, c.Size()); err != nil {
		return nil, err
	}
	return newObject(&Object{Claim: c}, &digestedObject{Spec: &c.Spec})
}

// NewVolume is NewConfigMap for a PersistentVolume.
func NewVolume(v *v1.PersistentVolume) (*Object, error) {
	if err := checkObjectSize(v, v.Size()); err != nil {
		return nil, err
	}
	return newObject(&Object{Volume: v}, &digestedObject{Spec: &v.Spec})
}

// NewDriver is NewConfigMap for a CSIDriver.
func NewDriver(d *storagev1.CSIDriver) (*Object, error) {
	if err := checkObjectSize(d, d.Size()); err != nil {
		return nil, err
	}
	return newObject(&Object{Driver: d}, &digestedObject{Spec: &d.Spec})
}
