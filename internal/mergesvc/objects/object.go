package objects

import (
	"encoding/json"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Object is one version of one object, encoded once for all consumers. It is immutable.
type Object struct {
	ref     Ref
	content *manifest.Object
	slots   [slots]slot
}

// The encodings that are cached.
const (
	slotJSON = iota
	slotProtobuf
	slotReference
	slots
)

// slot is one encoding, made when it is first needed.
type slot struct {
	once sync.Once
	data []byte
	err  error
}

func newObject(ref Ref, content *manifest.Object) *Object { return &Object{ref: ref, content: content} }

// Digest is podconfig.v1.Object.digest.
func (o *Object) Digest() string { return o.content.Digest }

// size is roughly the memory of the object: as a value and in one or two encodings.
func (o *Object) size() int {
	const overhead = 1 << 10
	return overhead + 3*sizeOf(o.content)
}

// sizeOf is an object's size in bytes.
func sizeOf(o *manifest.Object) int { return o.Content().Size() }

// Encode returns the bytes of a podconfig.v1.Object. They are shared: callers must not change them.
func (o *Object) Encode(format podconfigv1.PodFormat) ([]byte, error) {
	var at int
	switch format {
	case podconfigv1.PodFormat_POD_FORMAT_UNSPECIFIED, podconfigv1.PodFormat_POD_FORMAT_JSON:
		at = slotJSON
	case podconfigv1.PodFormat_POD_FORMAT_PROTOBUF:
		at = slotProtobuf
	case podconfigv1.PodFormat_POD_FORMAT_REFERENCE:
		at = slotReference
	default:
		return nil, fmt.Errorf("format %d isn't known", format)
	}
	s := &o.slots[at]
	s.once.Do(func() {
		// The error stays if encoding panics: missing bytes must not count as an empty object.
		s.err = fmt.Errorf("encode %s of %s: it couldn't be encoded before", o.ref.ObjectKey, o.ref.Source)
		m := &podconfigv1.Object{Ref: o.ref.Message(), Digest: o.Digest()}
		err := o.addContent(m, at)
		if err == nil {
			s.data, err = proto.Marshal(m)
		}
		if s.err = err; err != nil {
			s.err = fmt.Errorf("encode %s of %s: %w", o.ref.ObjectKey, o.ref.Source, err)
		}
	})
	return s.data, s.err
}

// addContent adds what a slot's format has in addition to the reference and the digest.
func (o *Object) addContent(m *podconfigv1.Object, at int) error {
	switch at {
	case slotJSON:
		content, err := o.json()
		m.Content = content
		return err
	case slotProtobuf:
		content, err := o.protobuf()
		m.Content = content
		return err
	default:
		return nil
	}
}

// json returns the object as `kubectl get -o json` shows it, with the kind, which the items of an API server's list
// lack.
func (o *Object) json() (*podconfigv1.Object_Json, error) {
	text, err := json.Marshal(o.content.WithKind())
	if err != nil {
		return nil, err
	}
	content := &structpb.Struct{}
	if err := content.UnmarshalJSON(text); err != nil {
		return nil, err
	}
	return &podconfigv1.Object_Json{Json: content}, nil
}

func (o *Object) protobuf() (*podconfigv1.Object_Protobuf, error) {
	data, err := o.content.Content().Marshal()
	if err != nil {
		return nil, err
	}
	return &podconfigv1.Object_Protobuf{Protobuf: data}, nil
}

// Message returns the reference as a message that the caller owns.
func (r Ref) Message() *podconfigv1.ObjectRef {
	return &podconfigv1.ObjectRef{
		Kind: podconfigv1.ObjectKind(r.Kind), Namespace: r.Namespace, Name: r.Name, Source: r.Source, //nolint:gosec // A few kinds.
	}
}

// RefOf is the reference that a message names.
func RefOf(m *podconfigv1.ObjectRef) Ref {
	return Ref{Source: m.GetSource(), ObjectKey: manifest.ObjectKey{
		Kind: manifest.ObjectKind(m.GetKind()), Namespace: m.GetNamespace(), Name: m.GetName(),
	}}
}
