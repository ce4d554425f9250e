package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
)

// Findings are what is wrong with a document, as a value of its type.
type Findings struct {
	// Wrong are values that their fields can't take.
	Wrong []error
	// Unknown are fields that the type doesn't have.
	Unknown []error
	// Doubled are fields that are given twice; the last one counts.
	Doubled []error
}

// Decode puts the document into the struct that into points to, by its json tags; names are case-sensitive. If there is anything
// in Findings.Wrong, what into then holds is not to be used.
func (d *Document) Decode(into any) Findings {
	c := check{doc: d}
	c.value(d.value, reflect.TypeOf(into).Elem(), nil)
	c.doubled(d.root, nil)
	if len(c.Wrong) > 0 {
		return c.Findings
	}
	data, err := json.Marshal(d.value)
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(data, into)
	}
	if err != nil {
		c.Wrong = append(c.Wrong, d.Mistake(nil, err.Error()))
	}
	return c.Findings
}

// check compares a document with a type, so that each finding has its line: what json.Unmarshal says has none.
type check struct {
	Findings
	doc *Document
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// value checks one value, and all below it. Null is taken for anything, as json does.
func (c *check) value(v any, t reflect.Type, at Field) {
	for t.Kind() == reflect.Pointer && !t.Implements(unmarshaler) {
		t = t.Elem()
	}
	switch list, isList := v.([]any); {
	case v == nil || t.Kind() == reflect.Interface:
	case t.Implements(unmarshaler) || reflect.PointerTo(t).Implements(unmarshaler):
		c.leaf(v, t, at)
	case t.Kind() == reflect.Struct:
		c.mapping(v, at, func(name string) (reflect.Type, bool) { return fieldType(t, name) })
	case t.Kind() == reflect.Map:
		c.mapping(v, at, func(string) (reflect.Type, bool) { return t.Elem(), true })
	case t.Kind() == reflect.Slice && isList:
		for i, element := range list {
			c.value(element, t.Elem(), at.With(Index(i)))
		}
	case t.Kind() == reflect.Slice:
		c.wrong(at, "want a list")
	default:
		c.leaf(v, t, at)
	}
}

func (c *check) mapping(v any, at Field, typeOf func(name string) (reflect.Type, bool)) {
	values, ok := v.(map[string]any)
	if !ok {
		c.wrong(at, "want a mapping")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if t, ok := typeOf(name); ok {
			c.value(values[name], t, at.With(name))
		} else {
			c.Unknown = append(c.Unknown, c.doc.Mistake(at.With(name), "there is no such field"))
		}
	}
}

// leaf tries a value that has nothing below it.
func (c *check) leaf(v any, t reflect.Type, at Field) {
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, reflect.New(t).Interface())
	}
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mismatch):
		c.wrong(at, fmt.Sprintf("want %s, not a %s", typeName(t), mismatch.Value))
	case err != nil:
		c.wrong(at, err.Error())
	}
}

func (c *check) wrong(at Field, reason string) {
	c.Wrong = append(c.Wrong, c.doc.Mistake(at, reason))
}

// doubled finds the keys that a mapping has more than once.
func (c *check) doubled(n *yamlv3.Node, at Field) {
	switch n.Kind {
	case yamlv3.MappingNode:
		first := map[string]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			field := at.With(key.Value)
			if line, ok := first[key.Value]; ok && key.Kind == yamlv3.ScalarNode && key.Tag != "!!merge" {
				c.Doubled = append(c.Doubled, &FieldError{
					File: c.doc.File, Line: key.Line, Field: field.String(), Reason: fmt.Sprintf("it is given already in line %d", line),
				})
			}
			first[key.Value] = key.Line
			c.doubled(n.Content[i+1], field)
		}
	case yamlv3.SequenceNode:
		for i, element := range n.Content {
			c.doubled(element, at.With(Index(i)))
		}
	}
}

// fieldType is the type of the field of that name in JSON.
func fieldType(t reflect.Type, name string) (reflect.Type, bool) {
	for f := range Fields(t) {
		if f.Name == name {
			return f.Type, true
		}
	}
	return nil, false
}

// typeName is a type in the words of YAML.
func typeName(t reflect.Type) string {
	switch kind := t.Kind(); {
	case kind == reflect.Bool:
		return "true or false"
	case strings.Contains(kind.String(), "int"):
		return "a whole number"
	case strings.Contains(kind.String(), "float"):
		return "a number"
	default:
		return "a string"
	}
}
