package manifest

import (
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// manifestType has the fields that a manifest can have: those of a pod, of a list of pods, or of an object.
type manifestType struct {
	v1.Pod
	Items      []v1.Pod          `json:"items"`
	Data       map[string]string `json:"data"`
	BinaryData map[string]string `json:"binaryData"`
	StringData map[string]string `json:"stringData"`
	Immutable  bool              `json:"immutable"`
	Type       string            `json:"type"`
}

// knownPath returns the beginning of a field's path up to the first name that the manifest has chosen: a key of a
// map, or a field that v1.Pod doesn't have. Either may be a secret in a wrong place.
func knownPath(path string) string {
	t, rest := reflect.TypeFor[manifestType](), path
	for rest != "" {
		var size int
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch t.Kind() {
		case reflect.Struct:
			t, size = memberType(t, rest)
		case reflect.Slice:
			t, size = t.Elem(), indexSize(rest)
		}
		if size == 0 {
			break
		}
		rest = rest[size:]
	}
	return strings.TrimSuffix(path, rest)
}

// memberType returns the type of the field that a path begins with, and the length of its name. Zero: the struct has
// no such field.
func memberType(t reflect.Type, path string) (reflect.Type, int) {
	name := strings.TrimPrefix(path, ".")
	if end := strings.IndexAny(name, ".["); end >= 0 {
		name = name[:end]
	}
	if f, ok := fieldNamed(t, name); ok {
		return f, len(path) - len(strings.TrimPrefix(path, ".")) + len(name)
	}
	return t, 0
}

func fieldNamed(t reflect.Type, name string) (reflect.Type, bool) {
	for f := range t.Fields() {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case tag == name && tag != "" && tag != "-":
			return f.Type, true
		case tag == "" && f.Anonymous && f.Type.Kind() == reflect.Struct:
			if found, ok := fieldNamed(f.Type, name); ok {
				return found, true
			}
		}
	}
	return nil, false
}

// indexSize returns the size of the index that a path begins with, such as "[12]", or zero.
func indexSize(path string) int {
	rest, ok := strings.CutPrefix(path, "[")
	digits, _, closed := strings.Cut(rest, "]")
	if !ok || !closed || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0
	}
	return len(digits) + len("[]")
}
