package differential

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// member is a field of a struct in JSON. The fields of an inlined struct belong to its parent.
type member struct {
	name string
	typ  reflect.Type
}

// membersOf returns the fields of a struct type.
func membersOf(t reflect.Type) []member {
	var members []member
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name == "" && (f.Anonymous || strings.Contains(options, "inline")):
			members = append(members, membersOf(f.Type)...)
		case name != "":
			members = append(members, member{name, f.Type})
		}
	}
	return members
}

// memberNamed returns the type of a field, or nil.
func memberNamed(t reflect.Type, name string) reflect.Type {
	members := membersOf(t)
	if i := slices.IndexFunc(members, func(m member) bool { return m.name == name }); i >= 0 {
		return members[i].typ
	}
	return nil
}

// isLeaf reports whether JSON has a single value for the type, although it is a struct in Go.
func isLeaf(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString](), reflect.TypeFor[metav1.Time](),
		reflect.TypeFor[metav1.FieldsV1]():
		return true
	}
	return t.Kind() != reflect.Struct && t.Kind() != reflect.Map && t.Kind() != reflect.Slice
}

// bare returns the type that pointers of type t point to.
func bare(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// site is one value of a manifest: a member of an object, an element of a list, or an entry of a map.
type site struct {
	// path leads to the value. An element is a string or an int.
	path []any
	typ  reflect.Type
	// owner is the innermost struct that contains the value, and field the name of the field there.
	owner reflect.Type
	field string
	value any
}

// sitesOf returns all values of a manifest of the type, without the manifest itself.
func sitesOf(tree any, t reflect.Type) []site {
	var sites []site
	var walk func(s site)
	walk = func(s site) {
		s.typ = bare(s.typ)
		if len(s.path) > 0 {
			sites = append(sites, s)
		}
		if isLeaf(s.typ) {
			return
		}
		at := func(element any) []any { return append(slices.Clip(s.path), element) }
		switch value := s.value.(type) {
		case map[string]any:
			for _, key := range sortedKeys(value) {
				if s.typ.Kind() == reflect.Map {
					walk(site{at(key), s.typ.Elem(), s.owner, s.field, value[key]})
				} else if s.typ.Kind() == reflect.Struct {
					if typ := memberNamed(s.typ, key); typ != nil {
						walk(site{at(key), typ, s.typ, key, value[key]})
					}
				}
			}
		case []any:
			for i, element := range value {
				if s.typ.Kind() == reflect.Slice {
					walk(site{at(i), s.typ.Elem(), s.owner, s.field, element})
				}
			}
		}
	}
	walk(site{typ: t, value: tree})
	return sites
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// replaceAt replaces the value at the path by with's result. If its second result is false, the value is
// removed.
func replaceAt(tree any, path []any, with func(any) (any, bool)) {
	parent := tree
	for _, element := range path[:len(path)-1] {
		switch at := element.(type) {
		case string:
			parent = parent.(map[string]any)[at]
		case int:
			parent = parent.([]any)[at]
		}
	}
	switch at := path[len(path)-1].(type) {
	case string:
		object := parent.(map[string]any)
		if value, keep := with(object[at]); keep {
			object[at] = value
		} else {
			delete(object, at)
		}
	case int:
		list := parent.([]any)
		if value, keep := with(list[at]); keep {
			list[at] = value
		} else if len(path) > 1 {
			// A shorter list has another header, so its parent must be changed too.
			replaceAt(tree, path[:len(path)-1], func(any) (any, bool) {
				return slices.Delete(slices.Clone(list), at, at+1), true
			})
		}
	}
}

// copied returns a deep copy of a JSON value.
func copied(value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(value))
		for key, v := range value {
			out[key] = copied(v)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, v := range value {
			out[i] = copied(v)
		}
		return out
	}
	return value
}
