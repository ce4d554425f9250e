package client

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// ObjectKind is a kind of object that pods refer to.
type ObjectKind = podconfigv1.ObjectKind

// The kinds of objects.
const (
	ConfigMapKind = podconfigv1.ObjectKind_OBJECT_KIND_CONFIG_MAP
	SecretKind    = podconfigv1.ObjectKind_OBJECT_KIND_SECRET
)

// ObjectRef names an object. The pods of a source refer to objects of that source only.
type ObjectRef struct {
	Kind                    ObjectKind
	Source, Namespace, Name string
}

// Object is one version of an object.
type Object struct {
	ObjectRef
	// Digest tells versions apart.
	Digest string
	// ConfigMap or Secret is the object itself, by its kind. It belongs to the consumer.
	ConfigMap *v1.ConfigMap
	Secret    *v1.Secret
}

// ObjectEvent is one revision of the objects, or one catch-up. It is to be applied as a whole; an event may have nothing but a Cursor:
// then revisions have gone by that held nothing for this consumer.
type ObjectEvent struct {
	// Removed are objects that no pod of the consumer refers to any more. The consumer may not hold all of them.
	Removed []ObjectRef
	// Put are objects that are new or changed.
	Put []Object
	// Missing are objects that a pod refers to and that don't exist, or not any more.
	Missing []ObjectRef
	// Synced is set on the event that ends a catch-up, at the beginning of each stream: what of the consumer's pods' objects can be
	// told has been. An object of a source that isn't ready in Sources may still come.
	Synced bool
	// Sources is the readiness of the configured sources that the consumer sees: all objects that their pods refer to are known. It is
	// set on Synced events, and where another readiness is told than before. Nil: not told.
	Sources []Source
	// Cursor is where the consumer is once it has applied the event.
	Cursor *podconfigv1.Cursor
}

// empty tells whether there is nothing to apply, not even another place.
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

// objectEvent is what ops come to.
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

// decodeObject decodes what a PUT brings.
func decodeObject(m *podconfigv1.Object) (Object, error) {
	o := Object{ObjectRef: objectRef(m.GetRef()), Digest: m.GetDigest()}
	var err error
	switch o.Kind {
	case ConfigMapKind:
		o.ConfigMap = &v1.ConfigMap{}
		err = o.ConfigMap.Unmarshal(m.GetProtobuf())
	case SecretKind:
		o.Secret = &v1.Secret{}
		err = o.Secret.Unmarshal(m.GetProtobuf())
	default:
		err = fmt.Errorf("kind %d isn't known", o.Kind)
	}
	if err != nil {
		// The content is in no error: it may be a secret.
		return Object{}, fmt.Errorf("decode %s/%s of %s: %w", o.Namespace, o.Name, o.Source, err)
	}
	return o, nil
}
