package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	jsonutil "k8s.io/apimachinery/pkg/util/json"
)

// decoder reads v1.Pod and nothing else. It is strict, and what it finds so comes beside the pod, not in its place.
var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(v1.SchemeGroupVersion, &v1.Pod{})
	return kjson.NewSerializerWithOptions(kjson.DefaultMetaFactory, scheme, scheme, kjson.SerializerOptions{Strict: true})
}()

var podKind = v1.SchemeGroupVersion.WithKind("Pod")

// strictFinding is a field that v1.Pod doesn't have, or that is there twice.
type strictFinding struct{ path, problem, consequence string }

// lastCounts is what comes of a doubled field.
const lastCounts = "the last one counts"

// decodePod reads a pod from JSON. An item of a list needs no kind.
func decodePod(data []byte) (*v1.Pod, []strictFinding, error) {
	pod := &v1.Pod{}
	_, _, err := decoder.Decode(data, &podKind, pod)
	strict, ok := runtime.AsStrictDecodingError(err)
	if err != nil && !ok {
		return nil, nil, err
	}
	pod.TypeMeta.SetGroupVersionKind(podKind)
	if !ok {
		return pod, nil, nil
	}
	var found []strictFinding
	for _, e := range strict.Errors() {
		found = append(found, asFinding(e))
	}
	return pod, found, nil
}

// asFinding takes the path out of one of the decoder's strict errors: its text is a few words and the quoted path.
func asFinding(err error) strictFinding {
	var field interface{ FieldPath() string }
	if !errors.As(err, &field) {
		return strictFinding{problem: err.Error(), consequence: "this is ignored"}
	}
	if strings.HasPrefix(err.Error(), "duplicate field") {
		return strictFinding{field.FieldPath(), "is set twice", lastCounts}
	}
	return strictFinding{field.FieldPath(), "isn't a field of v1.Pod", "it is ignored"}
}

// decodeTree reads a JSON object without regard to its type. Integers are int64, other numbers float64.
func decodeTree(data []byte) (map[string]any, error) {
	var tree map[string]any
	if err := jsonutil.Unmarshal(data, &tree); err != nil {
		var e *json.UnmarshalTypeError
		if errors.As(err, &e) {
			return nil, fmt.Errorf("it is %s: a manifest is an object that begins with \"apiVersion: v1\" and \"kind: Pod\"", jsonType(e))
		}
		return nil, fmt.Errorf("it can't be decoded: %w", err)
	}
	if tree == nil {
		return nil, errors.New("it is null")
	}
	return tree, nil
}

// typeOf is the object's apiVersion and kind.
func typeOf(tree map[string]any) (apiVersion, kind string, err error) {
	for field, into := range map[string]*string{"apiVersion": &apiVersion, "kind": &kind} {
		if tree[field] == nil {
			continue
		}
		s, ok := tree[field].(string)
		if !ok {
			return "", "", errors.New("apiVersion and kind have to be strings: \"apiVersion: v1\" and \"kind: Pod\"")
		}
		*into = s
	}
	switch {
	case apiVersion == "" && kind == "":
		return "", "", errors.New("apiVersion and kind are missing: a manifest begins with \"apiVersion: v1\" and \"kind: Pod\"")
	case apiVersion == "":
		return "", "", errors.New("apiVersion is missing: write \"apiVersion: v1\"")
	case kind == "":
		return "", "", errors.New("kind is missing: write \"kind: Pod\"")
	}
	return apiVersion, kind, nil
}

// decodeList returns the items of a PodList. Without the member "items" it isn't a list: an empty one has to say so, since it
// clears the source.
func decodeList(data []byte) ([]json.RawMessage, error) {
	var list struct {
		Items *json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("the list can't be decoded: %w", err)
	}
	tree, err := decodeTree(data)
	if err != nil {
		return nil, err
	}
	if _, ok := tree["items"]; !ok {
		return nil, errors.New("is missing: an empty list is written as \"items\": []")
	}
	if list.Items == nil {
		return nil, nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(*list.Items, &items); err != nil {
		return nil, errors.New("isn't a list")
	}
	return items, nil
}

// checkItem refuses an item of a PodList that says that it is something else.
func checkItem(item map[string]any) error {
	if kind, ok := item["kind"]; ok && kind != "Pod" {
		return fmt.Errorf("kind %v isn't Pod", kind)
	}
	if version, ok := item["apiVersion"]; ok && version != "v1" {
		return fmt.Errorf("apiVersion %v isn't v1", version)
	}
	return nil
}
