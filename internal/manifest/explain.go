package manifest

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// The types of values, in the terms of a manifest's author.
const (
	aString word = "a string"
	aNumber word = "a number"
	aBool   word = "a bool"
	aList   word = "a list"
	anObj   word = "an object"
)

// explain returns, in the terms of a manifest's author, why a pod can't be decoded, and which field is wrong. The
// decoder returns neither the index of a list's element nor the path of a bad quantity, so these are searched for in
// the tree.
func explain(err error, tree map[string]any) (field string, why *problem) {
	var e *json.UnmarshalTypeError
	if !errors.As(err, &e) {
		return badQuantity(tree), problemf("this isn't a v1 Pod: %v", err)
	}
	return explainType(e, tree)
}

// explainType explains a value of another type than the field's.
func explainType(e *json.UnmarshalTypeError, tree map[string]any) (field string, why *problem) {
	is, wanted := jsonType(e), goType(e.Type)
	why = problemf("is %s where %s is wanted", is, wanted)
	if wanted == aString && (is == aNumber || is == aBool) {
		why = problemf("%v: write it in quotes", why)
	}
	names := strings.Split(e.Field, ".")
	for _, members := range []bool{false, true} {
		if path, ok := locate(tree, "", names, is, members); ok {
			return path, why
		}
	}
	return e.Field, why
}

// jsonType returns the type of the value in a decoding error. The decoder names it by one of a few words, perhaps
// followed by the value itself.
func jsonType(e *json.UnmarshalTypeError) word {
	switch is, _, _ := strings.Cut(e.Value, " "); is {
	case "array":
		return aList
	case "object":
		return anObj
	default:
		return word("a " + is)
	}
}

// goType returns what a manifest has for a value of a Go type.
func goType(t reflect.Type) word {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
		// Bytes are written in base64.
		return aString
	}
	switch t.Kind() {
	case reflect.String:
		return aString
	case reflect.Bool:
		return aBool
	case reflect.Slice, reflect.Array:
		return aList
	case reflect.Struct, reflect.Map:
		return anObj
	default:
		return aNumber
	}
}

func treeType(value any) word {
	switch value.(type) {
	case string:
		return aString
	case bool:
		return aBool
	case []any:
		return aList
	case map[string]any:
		return anObj
	case nil:
		return "null"
	default:
		return aNumber
	}
}

// locate returns the path of the first value of a type at the given names, through lists. With members, the value is
// a member of what the names lead to: for a map the decoder doesn't return the key.
func locate(value any, path string, names []string, is word, members bool) (string, bool) {
	if len(names) == 0 && !members && treeType(value) == is {
		return path, true
	}
	switch value := value.(type) {
	case []any:
		for i, v := range value {
			if found, ok := locate(v, path+"["+strconv.Itoa(i)+"]", names, is, members); ok {
				return found, true
			}
		}
	case map[string]any:
		if len(names) > 0 {
			return locate(value[names[0]], strings.TrimPrefix(path+"."+names[0], "."), names[1:], is, members)
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if members && treeType(value[key]) == is {
				return path + "[" + key + "]", true
			}
		}
	}
	return "", false
}
