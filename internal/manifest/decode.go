package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	kjson "sigs.k8s.io/json"
)

// decoder reads only the kinds that a manifest may have. It is strict, and returns strict errors beside the object,
// not in its place.
var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(v1.SchemeGroupVersion, &v1.Pod{}, &v1.ConfigMap{}, &v1.Secret{}, &v1.PersistentVolumeClaim{}, &v1.PersistentVolume{})
	scheme.AddKnownTypes(storagev1.SchemeGroupVersion, &storagev1.CSIDriver{})
	return serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, scheme, scheme, serializer.SerializerOptions{Strict: true})
}()

var podKind = v1.SchemeGroupVersion.WithKind("Pod")

// strictFinding is an error of a field that is decoded all the same.
type strictFinding struct {
	path    string
	problem *problem
}

// decodePod decodes a pod, without its status, from a tree of which text is the encoding: a static pod starts without
// one. An item of a list needs no kind.
func decodePod(tree map[string]any, text []byte) (*v1.Pod, []strictFinding, error) {
	if _, ok := tree["status"]; ok {
		tree = maps.Clone(tree)
		delete(tree, "status")
		var err error
		if text, err = encodeTree(tree); err != nil {
			return nil, nil, err
		}
	}
	pod := &v1.Pod{}
	found, err := decodeInto(pod, podKind, text)
	if err != nil {
		return nil, nil, err
	}
	return pod, found, nil
}

// decodeInto decodes an object of the kind.
func decodeInto(object runtime.Object, kind schema.GroupVersionKind, text []byte) ([]strictFinding, error) {
	_, _, err := decoder.Decode(text, &kind, object)
	strict, ok := runtime.AsStrictDecodingError(err)
	if err != nil && !ok {
		return nil, err
	}
	object.GetObjectKind().SetGroupVersionKind(kind)
	if !ok {
		return nil, nil
	}
	var found []strictFinding
	for _, e := range strict.Errors() {
		found = append(found, asFinding(e, word(kind.Version+"."+kind.Kind)))
	}
	return found, nil
}

// asFinding extracts the path from one of the decoder's strict errors: its text is a few words and the quoted path.
// The decoder's input has no doubled fields any more.
func asFinding(err error, kind word) strictFinding {
	if path, ok := fieldPath(err); ok {
		return strictFinding{path, problemf("isn't a field of %s", kind)}
	}
	return strictFinding{problem: problemf("isn't as %s has it: %v", kind, err)}
}

func fieldPath(err error) (string, bool) {
	var field kjson.FieldError
	if !errors.As(err, &field) {
		return "", false
	}
	return field.FieldPath(), true
}

// doubledKey is a key that its object has twice. In JSON its line isn't known.
type doubledKey struct {
	path string
	line int
}

func (d doubledKey) problem() *problem {
	if d.line == 0 {
		return problemf("is set twice")
	}
	return problemf("is set twice, again in line %d", d.line)
}

// below returns the keys under a prefix, without it.
func below(doubled []doubledKey, prefix string) []doubledKey {
	var left []doubledKey
	for _, d := range doubled {
		if path, ok := strings.CutPrefix(d.path, prefix); ok {
			left = append(left, doubledKey{path, d.line})
		}
	}
	return left
}

// decodeTree reads a JSON object without regard to its type. Integers are int64, other numbers float64; of a doubled
// key the last one counts, as with the kubelet.
func decodeTree(data []byte) (map[string]any, []doubledKey, error) {
	var tree map[string]any
	strict, err := kjson.UnmarshalStrict(data, &tree, kjson.DisallowDuplicateFields)
	if err != nil {
		var e *json.UnmarshalTypeError
		if errors.As(err, &e) {
			return nil, nil, notAnObject(jsonType(e))
		}
		return nil, nil, problemf("it can't be decoded: %v", err)
	}
	var doubled []doubledKey
	for _, e := range strict {
		if path, ok := fieldPath(e); ok {
			doubled = append(doubled, doubledKey{path: path})
		}
	}
	return tree, doubled, nil
}

// encodeTree returns the text from which a UID is made and the pod is decoded: JSON without white space, members
// sorted by name in byte order, and a newline.
func encodeTree(tree map[string]any) ([]byte, error) {
	var b bytes.Buffer
	// encoding/json sorts the members of maps.
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(tree); err != nil {
		return nil, problemf("encode the document: %v", err)
	}
	return b.Bytes(), nil
}

// isEmpty reports whether a value is null, or an object without members.
func isEmpty(value any) bool {
	object, ok := value.(map[string]any)
	return value == nil || ok && len(object) == 0
}

func notAnObject(is word) error {
	return problemf("it is %s: a manifest is an object that begins with \"apiVersion: v1\" and \"kind: Pod\"", is)
}

// typeOf returns the object's apiVersion and kind.
func typeOf(tree map[string]any) (apiVersion, kind string, err error) {
	for field, into := range map[string]*string{"apiVersion": &apiVersion, "kind": &kind} {
		if tree[field] == nil {
			continue
		}
		s, ok := tree[field].(string)
		if !ok {
			return "", "", problemf("apiVersion and kind have to be strings: \"apiVersion: v1\" and \"kind: Pod\"")
		}
		*into = s
	}
	switch {
	case apiVersion == "" && kind == "":
		return "", "", problemf("apiVersion and kind are missing: a manifest begins with \"apiVersion: v1\" and \"kind: Pod\"")
	case apiVersion == "":
		return "", "", problemf("apiVersion is missing: write \"apiVersion: v1\"")
	case kind == "":
		return "", "", problemf("kind is missing: write \"kind: Pod\"")
	}
	return apiVersion, kind, nil
}

// itemsOf returns the items of a PodList. Without the member "items" it isn't a list: an empty list must have it,
// since it clears the source.
func itemsOf(tree map[string]any) ([]any, error) {
	value, ok := tree["items"]
	if !ok {
		return nil, problemf("is missing: an empty list is written as \"items\": []")
	}
	items, ok := value.([]any)
	if !ok && value != nil {
		return nil, problemf("is %s where %s is wanted", treeType(value), aList)
	}
	return items, nil
}

// checkItem refuses an item of a PodList that isn't a pod. It needs no apiVersion and kind.
func checkItem(item any) (map[string]any, error) {
	object, ok := item.(map[string]any)
	if !ok {
		return nil, notAnObject(treeType(item))
	}
	if kind, ok := object["kind"]; ok && kind != "Pod" {
		return nil, problemf("kind %v isn't Pod", kind)
	}
	if version, ok := object["apiVersion"]; ok && version != "v1" {
		return nil, problemf("apiVersion %v isn't v1", version)
	}
	return object, nil
}
