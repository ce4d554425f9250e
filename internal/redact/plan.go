package redact

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// decision is the decision on some fields of one struct type, wherever in a pod the type occurs.
type decision struct {
	owner  reflect.Type
	fields []string
	// act is nil if the fields are shown as they are.
	act action
}

// show decides that fields of T, by their Go names, are shown.
func show[T any](fields ...string) decision {
	return decision{owner: reflect.TypeFor[T](), fields: fields}
}

// redact decides that act is applied to a field of T.
func redact[T any](field string, act action) decision {
	return decision{owner: reflect.TypeFor[T](), fields: []string{field}, act: act}
}

// plan is a struct type with the steps for its fields.
type plan struct{ steps []step }

// step handles one field: by act, or by the plan of the structs within it.
type step struct {
	field  int
	act    action
	within *plan
}

// apply redacts a struct in place.
func (p *plan) apply(v reflect.Value, mark string) {
	for _, s := range p.steps {
		if s.act != nil {
			s.act(v.Field(s.field), mark)
		} else {
			s.within.applyEach(v.Field(s.field), mark)
		}
	}
}

// applyEach redacts the structs behind pointers and in lists.
func (p *plan) applyEach(v reflect.Value, mark string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			p.applyEach(v.Elem(), mark)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			p.applyEach(v.Index(i), mark)
		}
	default:
		p.apply(v, mark)
	}
}

// compile makes the plan of a struct type. Undecided are the fields, as Type.Field, that can hold text and aren't in
// the table; the plan leaves them out.
func compile(root reflect.Type, table []decision) (p *plan, undecided []string) {
	c := compiler{decided: map[field]action{}, plans: map[reflect.Type]*plan{}}
	for _, d := range table {
		for _, name := range d.fields {
			c.decided[field{d.owner, name}] = d.act
		}
	}
	return c.plan(root), c.undecided
}

type field struct {
	owner reflect.Type
	name  string
}

type compiler struct {
	decided   map[field]action
	plans     map[reflect.Type]*plan
	undecided []string
}

func (c *compiler) plan(t reflect.Type) *plan {
	if p, ok := c.plans[t]; ok {
		return p
	}
	p := &plan{}
	c.plans[t] = p
	for i := range t.NumField() {
		f := t.Field(i)
		act, decided := c.decided[field{t, f.Name}]
		switch {
		case decided && act == nil:
		case decided:
			p.steps = append(p.steps, step{field: i, act: act})
		case holdsText(f.Type):
			c.undecided = append(c.undecided, t.String()+"."+f.Name)
			p.steps = append(p.steps, step{field: i, act: drop})
		case isStruct(f.Type):
			p.steps = append(p.steps, step{field: i, within: c.plan(element(f.Type))})
		}
	}
	return p
}

// holdsText reports whether a field of the type can hold text itself, other than in the fields of a struct. A map, an
// interface and a struct with unexported fields can.
func holdsText(t reflect.Type) bool {
	e := element(t)
	switch e.Kind() {
	case reflect.Struct:
		return isStruct(t) && hasHiddenFields(e)
	case reflect.Uint8:
		return e != t // a list of bytes is text
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint16,
		reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return false
	default:
		return true
	}
}

// plain are structs that count as values: a time, a quantity, the number or name of a port.
var plain = map[reflect.Type]bool{
	reflect.TypeFor[metav1.Time]():        true,
	reflect.TypeFor[resource.Quantity]():  true,
	reflect.TypeFor[intstr.IntOrString](): true,
}

func isStruct(t reflect.Type) bool {
	e := element(t)
	return e.Kind() == reflect.Struct && !plain[e]
}

func hasHiddenFields(t reflect.Type) bool {
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			return true
		}
	}
	return false
}

// element returns the type behind pointers and in lists.
func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		t = t.Elem()
	}
	return t
}
