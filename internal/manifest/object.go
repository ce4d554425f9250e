package manifest

import (
	"cmp"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ObjectKind is a kind of Object, numbered as podconfig.v1.ObjectKind.
type ObjectKind int

// The kinds of objects beside pods.
const (
	ConfigMapKind ObjectKind = iota + 1
	SecretKind
	ClaimKind
	VolumeKind
	DriverKind
)

// kinds are the names of the kinds.
var kinds = map[ObjectKind]schema.GroupVersionKind{
	ConfigMapKind: v1.SchemeGroupVersion.WithKind("ConfigMap"),
	SecretKind:    v1.SchemeGroupVersion.WithKind("Secret"),
	ClaimKind:     v1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
	VolumeKind:    v1.SchemeGroupVersion.WithKind("PersistentVolume"),
	DriverKind:    storagev1.SchemeGroupVersion.WithKind("CSIDriver"),
}

// objectKinds are the kinds in the order of their numbers.
var objectKinds = []ObjectKind{ConfigMapKind, SecretKind, ClaimKind, VolumeKind, DriverKind}

// kindOf returns the kind of a document; false if it isn't that of an object.
func kindOf(apiVersion, kind string) (ObjectKind, bool) {
	for _, k := range objectKinds {
		if is := k.GroupVersionKind(); is.Kind == kind && is.GroupVersion().String() == apiVersion {
			return k, true
		}
	}
	return 0, false
}

// GroupVersionKind returns the kind as the API server has it.
func (k ObjectKind) GroupVersionKind() schema.GroupVersionKind { return kinds[k] }

// Namespaced reports whether objects of the kind have a namespace.
func (k ObjectKind) Namespaced() bool { return k != VolumeKind && k != DriverKind }

// String returns the kind as a manifest names it.
func (k ObjectKind) String() string {
	if known, ok := kinds[k]; ok {
		return known.Kind
	}
	return fmt.Sprintf("ObjectKind(%d)", int(k))
}

// ObjectKey names an object among those of one source. A kind without namespaces has none here either.
type ObjectKey struct {
	Kind            ObjectKind
	Namespace, Name string
}

// meansObject reports whether a document of that kind, as written, may be meant to define objects. An empty kind
// means that it can't be read.
func meansObject(kind string) bool {
	kind = strings.TrimSuffix(strings.ToLower(kind), "list")
	for _, k := range objectKinds {
		if kind == "" || kind == strings.ToLower(k.String()) {
			return true
		}
	}
	return false
}

// Compare orders keys by kind, namespace and name.
func (k ObjectKey) Compare(other ObjectKey) int {
	return cmp.Or(cmp.Compare(k.Kind, other.Kind), cmp.Compare(k.Namespace, other.Namespace), cmp.Compare(k.Name, other.Name))
}

// String returns the key for logs and messages.
func (k ObjectKey) String() string {
	if k.Namespace == "" {
		return k.Kind.String() + " " + k.Name
	}
	return k.Kind.String() + " " + k.Namespace + "/" + k.Name
}

// Key is the object's key.
func (o *Object) Key() ObjectKey {
	meta := o.Meta()
	return ObjectKey{Kind: o.Kind(), Namespace: meta.Namespace, Name: meta.Name}
}

// Kind is the object's kind.
func (o *Object) Kind() ObjectKind {
	switch {
	case o.Secret != nil:
		return SecretKind
	case o.Claim != nil:
		return ClaimKind
	case o.Volume != nil:
		return VolumeKind
	case o.Driver != nil:
		return DriverKind
	}
	return ConfigMapKind
}

// Meta is the object's metadata, which is immutable.
func (o *Object) Meta() *metav1.ObjectMeta {
	switch {
	case o.Secret != nil:
		return &o.Secret.ObjectMeta
	case o.Claim != nil:
		return &o.Claim.ObjectMeta
	case o.Volume != nil:
		return &o.Volume.ObjectMeta
	case o.Driver != nil:
		return &o.Driver.ObjectMeta
	}
	return &o.ConfigMap.ObjectMeta
}

// NewConfigMap returns the object of a ConfigMap, which must not change any more. It returns an error if the
// ConfigMap is too large to be sent. The object has no managedFields: they have no meaning on a node, and are the
// only part of an object that may not be valid JSON.
func NewConfigMap(c *v1.ConfigMap) (*Object, error) {
	if c.ManagedFields != nil {
		// The caller's may be shared.
		bare := *c
		bare.ManagedFields = nil
		c = &bare
	}
	if err := checkObjectSize(c, c.Size()); err != nil {
		return nil, err
	}
	return newObject(&Object{ConfigMap: c}, &digestedObject{BinaryData: asAny(c.BinaryData), Data: asAny(c.Data), Immutable: c.Immutable})
}

// NewSecret is NewConfigMap for a Secret.
func NewSecret(s *v1.Secret) (*Object, error) {
	if s.ManagedFields != nil {
		bare := *s
		bare.ManagedFields = nil
		s = &bare
	}
	if err := checkObjectSize(s, s.Size()); err != nil {
		return nil, err
	}
	return newObject(&Object{Secret: s}, &digestedObject{Data: asAny(s.Data), Immutable: s.Immutable, Type: s.Type})
}

// digestedObject is the input of an object's digest.
type digestedObject struct {
	BinaryData map[string]any `json:"binaryData,omitempty"`
	Data       map[string]any `json:"data,omitempty"`
	Immutable  *bool          `json:"immutable,omitempty"`
	Type       v1.SecretType  `json:"type,omitempty"`
	// Spec is that of the other kinds.
	Spec any `json:"spec,omitempty"`
}

func newObject(o *Object, of *digestedObject) (*Object, error) {
	text, err := canonical(of, false)
	if err != nil {
		return nil, fmt.Errorf("digest %s %s/%s: %w", o.Kind(), o.Meta().Namespace, o.Meta().Name, err)
	}
	o.Digest = sum(text)
	return o, nil
}

// asAny returns an object's data. An empty value equals a missing one: JSON and protobuf don't distinguish them.
func asAny[V ~string | ~[]byte](data map[string]V) map[string]any {
	if len(data) == 0 {
		return nil
	}
	out := make(map[string]any, len(data))
	for key, value := range data {
		if out[key] = value; len(value) == 0 {
			out[key] = ""
		}
	}
	return out
}
