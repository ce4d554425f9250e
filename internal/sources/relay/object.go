package relay

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client/stream"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// checkObjects refuses objects whose references aren't valid.
func checkObjects(r *stream.ObjectRevision) error {
	for _, update := range r.Updates {
		for _, o := range update.GetObjects() {
			ref := o.GetRef()
			if _, known := podconfigv1.ObjectKind_name[int32(ref.GetKind())]; !known || ref.GetKind() == 0 ||
				!isWord(ref.GetSource()) || !isWord(ref.GetNamespace()) || !isWord(ref.GetName()) {
				return fmt.Errorf("%w: an object with the reference %d, %.64q, %.64q of the source %.64q", errNonsense,
					ref.GetKind(), ref.GetNamespace(), ref.GetName(), ref.GetSource())
			}
		}
	}
	return nil
}

func idOf(ref *podconfigv1.ObjectRef) objectID {
	return objectID{sources.ObjectKey{
		Kind: manifest.ObjectKind(ref.GetKind()), Namespace: ref.GetNamespace(), Name: ref.GetName(),
	}, ref.GetSource()}
}

// decodeObject returns the object of a message, if its name is the one in the message's reference.
func decodeObject(m *podconfigv1.Object) (*manifest.Object, error) {
	encoded, ok := m.GetContent().(*podconfigv1.Object_Protobuf)
	switch {
	case !ok:
		return nil, errors.New("came in another encoding than protobuf, or in none")
	case m.GetDigest() == "":
		return nil, errors.New("came without its digest")
	}
	object, err := unmarshalObject(m.GetRef().GetKind(), encoded.Protobuf)
	if err != nil {
		return nil, err
	}
	if meta, ref := object.Meta(), m.GetRef(); meta.Namespace != ref.GetNamespace() || meta.Name != ref.GetName() {
		return nil, fmt.Errorf("contains another object: %.64q, %.64q", meta.Namespace, meta.Name)
	}
	return object, nil
}

func unmarshalObject(kind podconfigv1.ObjectKind, data []byte) (*manifest.Object, error) {
	if kind == podconfigv1.ObjectKind_OBJECT_KIND_SECRET {
		secret := &v1.Secret{}
		if err := secret.Unmarshal(data); err != nil {
			return nil, fmt.Errorf("can't be decoded: %w", err)
		}
		return manifest.NewSecret(secret)
	}
	config := &v1.ConfigMap{}
	if err := config.Unmarshal(data); err != nil {
		return nil, fmt.Errorf("can't be decoded: %w", err)
	}
	return manifest.NewConfigMap(config)
}
