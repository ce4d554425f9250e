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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

// maxFindings is how many findings of one sort a document gets.
const maxFindings = 100

// Few returns the first of many mistakes, and the number of the others.
func Few(mistakes []error) []error {
	if len(mistakes) <= maxFindings {
		return mistakes
	}
	return append(slices.Clip(mistakes[:maxFindings]), fmt.Errorf("and %d more", len(mistakes)-maxFindings))
}

// Findings are the problems of a document as a value of its type: of each sort the first hundred, and the number of
// the others.
type Findings struct {
	// Wrong are values that don't fit their fields.
	Wrong []error
	// Unknown are fields that the type doesn't have.
	Unknown []error
	// Doubled are fields that are given twice; the last one counts.
	Doubled []error
}

// Decode decodes the document into the struct that into points to, by its json tags; names are case-sensitive. If
// there are Findings.Wrong, the result must not be used.
func (d *Document) Decode(into any) Findings {
	c := check{doc: d}
	c.value(d.value, reflect.TypeOf(into).Elem(), nil)
	c.repeats(d.root, nil)
	found := Findings{Wrong: c.wrong.list(d.File), Unknown: c.unknown.list(d.File), Doubled: c.doubled.list(d.File)}
	if len(found.Wrong) > 0 {
		return found
	}
	data, err := json.Marshal(d.value)
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(data, into)
	}
	if err != nil {
		// The check missed something; the decoder's text may quote it.
		found.Wrong = append(found.Wrong, d.Mistake(nil, "its values don't fit its kind"))
	}
	return found
}

// check compares a document with a type, so that each finding has its line: errors of json.Unmarshal have none.
type check struct {
	doc                     *Document
	wrong, unknown, doubled tally
}

// tally has the findings of one sort.
type tally struct {
	found []error
	more  int
}

// add adds the finding that finding returns, unless there are too many.
func (t *tally) add(finding func() *FieldError) {
	if len(t.found) == maxFindings {
		t.more++
		return
	}
	t.found = append(t.found, finding())
}

func (t *tally) list(file string) []error {
	if t.more == 0 {
		return t.found
	}
	return append(t.found, &FieldError{File: file, Reason: fmt.Sprintf("and %d more", t.more)})
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// value checks one value, and all below it. Null fits any type, as in json.
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
		c.mistake(at, "want a list")
	default:
		c.leaf(v, t, at)
	}
}

func (c *check) mapping(v any, at Field, typeOf func(name string) (reflect.Type, bool)) {
	values, ok := v.(map[string]any)
	if !ok {
		c.mistake(at, "want a mapping")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if t, ok := typeOf(name); ok {
			c.value(values[name], t, at.With(name))
		} else {
			c.unknown.add(func() *FieldError { return c.doc.Mistake(at.With(name), "there is no such field") })
		}
	}
}

// leaf checks a value that has nothing below it.
func (c *check) leaf(v any, t reflect.Type, at Field) {
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, reflect.New(t).Interface())
	}
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mismatch):
		c.mistake(at, fmt.Sprintf("want %s, not a %s", typeName(t), mismatch.Value))
	case err != nil && t == reflect.TypeFor[metav1.Duration]():
		c.mistake(at, "want a time with its unit, such as 20s or 1m30s")
	case err != nil:
		c.mistake(at, "it can't have this value")
	}
}

func (c *check) mistake(at Field, reason string) {
	c.wrong.add(func() *FieldError { return c.doc.Mistake(at, reason) })
}

// repeats finds the keys that a mapping has more than once.
func (c *check) repeats(n *yamlv3.Node, at Field) {
	switch n.Kind {
	case yamlv3.MappingNode:
		first := map[string]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			field := at.With(key.Value)
			if line, ok := first[key.Value]; ok && key.Kind == yamlv3.ScalarNode && key.Tag != "!!merge" {
				c.doubled.add(func() *FieldError {
					return &FieldError{
						File: c.doc.File, Line: key.Line, Field: field.String(), Reason: fmt.Sprintf("it is given already in line %d", line),
					}
				})
			}
			first[key.Value] = key.Line
			c.repeats(n.Content[i+1], field)
		}
	case yamlv3.SequenceNode:
		for i, element := range n.Content {
			c.repeats(element, at.With(Index(i)))
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

// typeName returns a type in the terms of YAML.
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
