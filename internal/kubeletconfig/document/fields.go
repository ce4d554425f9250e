package document

import (
	"iter"
	"reflect"
	"slices"
	"strings"
)

// StructField is a field of a struct as JSON sees it.
type StructField struct {
	Name string
	Type reflect.Type
	// Index is as in reflect.StructField, from the outermost struct.
	Index []int
}

// Fields returns the fields of a struct type as JSON sees them, those of embedded structs included.
func Fields(t reflect.Type) iter.Seq[StructField] {
	return func(yield func(StructField) bool) { walkFields(t, nil, yield) }
}

func walkFields(t reflect.Type, index []int, yield func(StructField) bool) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		here := slices.Concat(index, []int{i})
		switch {
		case f.Anonymous && name == "":
			if !walkFields(f.Type, here, yield) {
				return false
			}
		case !f.IsExported() || name == "-":
		default:
			if name == "" {
				name = f.Name
			}
			if !yield(StructField{Name: name, Type: f.Type, Index: here}) {
				return false
			}
		}
	}
	return true
}
