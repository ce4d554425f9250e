package relay

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podstream/podstream/client/stream"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/manifest/validate"
	"github.com/podstream/podstream/internal/sources"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// checkObjects refuses objects whose references aren't valid.
func checkObjects(r *stream.ObjectRevision) error {
	for _, update := range r.Updates {
		for _, o := range update.GetObjects() {
			if ref := o.GetRef(); !isObjectRef(ref) {
				return fmt.Errorf("%w: an object with the reference %d, %.64q, %.64q of the source %.64q", errNonsense,
					ref.GetKind(), ref.GetNamespace(), ref.GetName(), ref.GetSource())
			}
		}
	}
	return nil
}

func isObjectRef(ref *podconfigv1.ObjectRef) bool {
	if _, known := podconfigv1.ObjectKind_name[int32(ref.GetKind())]; !known || ref.GetKind() == 0 || !isWord(ref.GetSource()) || !isWord(ref.GetName()) {
		return false
	}
	switch ref.GetKind() {
	case podconfigv1.ObjectKind_OBJECT_KIND_PERSISTENT_VOLUME, podconfigv1.ObjectKind_OBJECT_KIND_CSI_DRIVER:
		return ref.GetNamespace() == ""
	default:
		return isWord(ref.GetNamespace())
	}
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
	switch kind {
	case podconfigv1.ObjectKind_OBJECT_KIND_SECRET:
		return unmarshal(data, &v1.Secret{}, manifest.NewSecret)
	case podconfigv1.ObjectKind_OBJECT_KIND_PERSISTENT_VOLUME_CLAIM:
		return unmarshalStorage(data, &v1.PersistentVolumeClaim{}, claimShape(), func(c *v1.PersistentVolumeClaim) field.ErrorList {
			return append(validate.ObjectMeta(&c.ObjectMeta), validate.Claim(c)...)
		}, manifest.NewClaim)
	case podconfigv1.ObjectKind_OBJECT_KIND_PERSISTENT_VOLUME:
		return unmarshalStorage(data, &v1.PersistentVolume{}, volumeShape(), func(v *v1.PersistentVolume) field.ErrorList {
			return append(validate.ObjectMeta(&v.ObjectMeta), validate.Volume(v)...)
		}, manifest.NewVolume)
	case podconfigv1.ObjectKind_OBJECT_KIND_CSI_DRIVER:
		return unmarshalStorage(data, &storagev1.CSIDriver{}, nil, validate.Driver, manifest.NewDriver)
	default:
		return unmarshal(data, &v1.ConfigMap{}, manifest.NewConfigMap)
	}
}

// maxErrors bounds how many of an object's errors are named.
const maxErrors = 10

// decodable is an object of a kind.
type decodable interface {
	metav1.Object
	Unmarshal(data []byte) error
}

func unmarshal[T decodable](data []byte, into T, object func(T) (*manifest.Object, error)) (*manifest.Object, error) {
	if err := into.Unmarshal(data); err != nil {
		return nil, fmt.Errorf("can't be decoded: %w", err)
	}
	return object(into)
}

// unmarshalStorage is unmarshal for a claim, and what a claim needs. It is checked as in a manifest: this podconfigd's pods get nothing
// from another one that their own manifests couldn't have.
func unmarshalStorage[T decodable](
	data []byte, into T, quantities *shape, check func(T) field.ErrorList, object func(T) (*manifest.Object, error),
) (*manifest.Object, error) {
	if quantities != nil {
		if err := quantities.check(data); err != nil {
			return nil, err
		}
	}
	return unmarshal(data, into, func(T) (*manifest.Object, error) {
		if errs := check(into); len(errs) > 0 {
			return nil, fmt.Errorf("isn't valid: %.1024s", errs[:min(len(errs), maxErrors)].ToAggregate().Error())
		}
		return object(into)
	})
}
