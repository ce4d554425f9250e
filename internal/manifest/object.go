package manifest

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ObjectKind is a kind of Object, numbered as podconfig.v1.ObjectKind.
type ObjectKind int

// The kinds of objects that stand beside pods.
const (
	ConfigMapKind ObjectKind = iota + 1
	SecretKind
)

// String is the kind as a manifest names it.
func (k ObjectKind) String() string {
	switch k {
	case ConfigMapKind:
		return "ConfigMap"
	case SecretKind:
		return "Secret"
	default:
		return fmt.Sprintf("ObjectKind(%d)", int(k))
	}
}

// Kind is the object's kind.
func (o *Object) Kind() ObjectKind {
	if o.Secret != nil {
		return SecretKind
	}
	return ConfigMapKind
}

// Meta is the object's metadata; nobody may change it.
func (o *Object) Meta() *metav1.ObjectMeta {
	if o.Secret != nil {
		return &o.Secret.ObjectMeta
	}
	return &o.ConfigMap.ObjectMeta
}

// NewConfigMap is the object of a ConfigMap, which nobody changes any more. It fails on one that is too large to be sent.
func NewConfigMap(c *v1.ConfigMap) (*Object, error) {
	return newObject(&Object{ConfigMap: c}, c.Size(), &digestedObject{BinaryData: c.BinaryData, Data: asAny(c.Data), Immutable: c.Immutable})
}

// NewSecret is the object of a Secret, which nobody changes any more. It fails on one that is too large to be sent.
func NewSecret(s *v1.Secret) (*Object, error) {
	return newObject(&Object{Secret: s}, s.Size(), &digestedObject{Data: asAny(s.Data), Immutable: s.Immutable, Type: s.Type})
}

// digestedObject is what an object's digest is taken of.
type digestedObject struct {
	BinaryData map[string][]byte `json:"binaryData,omitempty"`
	Data       map[string]any    `json:"data,omitempty"`
	Immutable  *bool             `json:"immutable,omitempty"`
	Type       v1.SecretType     `json:"type,omitempty"`
}

func newObject(o *Object, size int, of *digestedObject) (*Object, error) {
	if size > MaxPodSize-envelope {
		return nil, tooLarge("protobuf", size)
	}
	text, err := canonical(of, false)
	if err != nil {
		return nil, fmt.Errorf("digest %s %s/%s: %w", o.Kind(), o.Meta().Namespace, o.Meta().Name, err)
	}
	o.Digest = sum(text)
	return o, nil
}

func asAny[V any](data map[string]V) map[string]any {
	if len(data) == 0 {
		return nil
	}
	out := make(map[string]any, len(data))
	for k, v := range data {
		out[k] = v
	}
	return out
}
