package client

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// ObjectKind is a kind of object that pods refer to.
type ObjectKind = podconfigv1.ObjectKind

// The kinds of objects.
const (
	ConfigMapKind = podconfigv1.ObjectKind_OBJECT_KIND_CONFIG_MAP
	SecretKind    = podconfigv1.ObjectKind_OBJECT_KIND_SECRET
	ClaimKind     = podconfigv1.ObjectKind_OBJECT_KIND_PERSISTENT_VOLUME_CLAIM
	VolumeKind    = podconfigv1.ObjectKind_OBJECT_KIND_PERSISTENT_VOLUME
	DriverKind    = podconfigv1.ObjectKind_OBJECT_KIND_CSI_DRIVER
)

// ObjectRef identifies an object. Pods refer only to objects of their own source.
type ObjectRef struct {
	Kind                    ObjectKind
	Source, Namespace, Name string
}

// Object is one version of an object. The field of its kind is set, the others are nil.
type Object struct {
	ObjectRef
	// Digest identifies the version. It is empty for an object that is known to be missing.
	Digest string
	// ConfigMap, Secret, Claim, Volume or Driver is the decoded object. The consumer may change it. The last three are set only
	// if ObjectOptions.Kinds has their kinds.
	ConfigMap *v1.ConfigMap
	Secret    *v1.Secret
	Claim     *v1.PersistentVolumeClaim
	Volume    *v1.PersistentVolume
	Driver    *storagev1.CSIDriver
}

// ObjectEvent is one revision of the objects, or one catch-up. A consumer applies it as a whole. An event with only a
// Cursor means that revisions passed that had no change for this consumer.
type ObjectEvent struct {
	// Removed lists objects that no pod of the consumer refers to any more. The consumer may not hold all of them.
	Removed []ObjectRef
	// Put lists new and changed objects.
	Put []Object
	// Missing lists objects that a pod refers to and that don't exist.
	Missing []ObjectRef
	// Synced is true on the event that ends the catch-up at the start of each stream: every object that is known then
	// has been delivered. Objects of a source that isn't ready in Sources may still follow.
	Synced bool
	// Sources is the readiness of the configured sources in the consumer's view. Ready means that all objects of the
	// source's pods are known. It is set on Synced events and when the readiness changes. Nil means no change.
	Sources []Source
	// Cursor is the consumer's position once it has applied the event. Nil means that it hasn't moved.
	Cursor *podconfigv1.Cursor
}

// empty reports whether the event changes nothing, not even the position.
func (e ObjectEvent) empty() bool {
	return len(e.Removed)+len(e.Put)+len(e.Missing) == 0 && !e.Synced && e.Sources == nil && e.Cursor == nil
}

func objectRef(m *podconfigv1.ObjectRef) ObjectRef {
	return ObjectRef{Kind: m.GetKind(), Source: m.GetSource(), Namespace: m.GetNamespace(), Name: m.GetName()}
}

func (r ObjectRef) message() *podconfigv1.ObjectRef {
	return &podconfigv1.ObjectRef{Kind: r.Kind, Source: r.Source, Namespace: r.Namespace, Name: r.Name}
}

func knownObjects(objects []Object) []*podconfigv1.KnownObject {
	var out []*podconfigv1.KnownObject
	for _, o := range objects {
		out = append(out, &podconfigv1.KnownObject{Ref: o.message(), Digest: o.Digest})
	}
	return out
}

// objectEvent decodes ops.
func objectEvent(ops []*podconfigv1.ObjectUpdate) (ObjectEvent, error) {
	var e ObjectEvent
	for _, u := range ops {
		for _, m := range u.GetObjects() {
			switch u.GetOp() {
			case podconfigv1.ObjectOperation_OBJECT_OPERATION_REMOVE:
				e.Removed = append(e.Removed, objectRef(m.GetRef()))
			case podconfigv1.ObjectOperation_OBJECT_OPERATION_MISSING:
				e.Missing = append(e.Missing, objectRef(m.GetRef()))
			default:
				o, err := decodeObject(m)
				if err != nil {
					return ObjectEvent{}, err
				}
				e.Put = append(e.Put, o)
			}
		}
	}
	return e, nil
}

// decodeObject decodes the object of a PUT.
func decodeObject(m *podconfigv1.Object) (Object, error) {
	o := Object{ObjectRef: objectRef(m.GetRef()), Digest: m.GetDigest()}
	var err error
	var meta *metav1.ObjectMeta
	switch o.Kind {
	case ConfigMapKind:
		o.ConfigMap = &v1.ConfigMap{}
		err, meta = o.ConfigMap.Unmarshal(m.GetProtobuf()), &o.ConfigMap.ObjectMeta
	case SecretKind:
		o.Secret = &v1.Secret{}
		err, meta = o.Secret.Unmarshal(m.GetProtobuf()), &o.Secret.ObjectMeta
	case ClaimKind:
		o.Claim = &v1.PersistentVolumeClaim{}
		err, meta = o.Claim.Unmarshal(m.GetProtobuf()), &o.Claim.ObjectMeta
	case VolumeKind:
		o.Volume = &v1.PersistentVolume{}
		err, meta = o.Volume.Unmarshal(m.GetProtobuf()), &o.Volume.ObjectMeta
	case DriverKind:
		o.Driver = &storagev1.CSIDriver{}
		err, meta = o.Driver.Unmarshal(m.GetProtobuf()), &o.Driver.ObjectMeta
	default:
		err = fmt.Errorf("unknown kind %d", o.Kind)
	}
	if err == nil && (meta.Namespace != o.Namespace || meta.Name != o.Name) {
		err = fmt.Errorf("it is another object: %.64q, %.64q", meta.Namespace, meta.Name)
	}
	if err != nil {
		// The error doesn't include the content, which may be a secret.
		return Object{}, fmt.Errorf("%w: decode %.64s/%.64s of %.64s: %w", errContent, o.Namespace, o.Name, o.Source, err)
	}
	return o, nil
}
