package redact

import (
	"reflect"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestEveryFieldIsDecided fails when a new version of Kubernetes brings a field that can hold text: decide in
// fields.go whether an inspector may see it. Until then it is left out.
func TestEveryFieldIsDecided(t *testing.T) {
	_, undecided := compile(reflect.TypeFor[v1.Pod](), table)
	for _, f := range undecided {
		t.Errorf("%s isn't in the table: show it or redact it, with the reason", f)
	}
}

// TestTableIsExact: each decision is about a field that pods have, and each field has one decision.
func TestTableIsExact(t *testing.T) {
	_, fields := compile(reflect.TypeFor[v1.Pod](), nil)
	decided := map[string]bool{}
	for _, d := range table {
		for _, name := range d.fields {
			f, ok := d.owner.FieldByName(name)
			full := d.owner.String() + "." + name
			switch {
			case !ok:
				t.Errorf("the table decides on %s, which doesn't exist", full)
			case holdsText(f.Type) && !slices.Contains(fields, full):
				t.Errorf("the table decides on %s, which isn't part of a pod", full)
			case decided[full]:
				t.Errorf("the table decides on %s twice", full)
			}
			decided[full] = true
		}
	}
}

// newer is a type of a later version, with fields of every type that can hold text.
type newer struct {
	Known, Text string
	Pointer     *string
	List        []string
	Bytes       []byte
	Map         map[string]int
	Any         any
	Hidden      hidden
	Within      []*within
	Number      int32
	Flags       []bool
}

type hidden struct{ text string }

type within struct {
	Text  string
	Again *within
}

// TestUnknownFieldsAreLeftOut: a field without a decision isn't shown, however deep it is nested.
func TestUnknownFieldsAreLeftOut(t *testing.T) {
	text := "secret"
	p, undecided := compile(reflect.TypeFor[newer](), []decision{show[newer]("Known")})
	want := []string{
		"redact.newer.Text", "redact.newer.Pointer", "redact.newer.List", "redact.newer.Bytes", "redact.newer.Map",
		"redact.newer.Any", "redact.newer.Hidden", "redact.within.Text",
	}
	if !slices.Equal(undecided, want) {
		t.Errorf("undecided are %v; want %v", undecided, want)
	}
	v := newer{
		Known: text, Text: text, Pointer: &text, List: []string{text}, Bytes: []byte(text), Map: map[string]int{text: 1}, Any: text,
		Hidden: hidden{text}, Within: []*within{{Text: text, Again: &within{Text: text}}, nil}, Number: 1, Flags: []bool{true},
	}
	p.apply(reflect.ValueOf(&v).Elem(), Placeholder)
	left := newer{Known: text, Within: []*within{{Again: &within{}}, nil}, Number: 1, Flags: []bool{true}}
	if !reflect.DeepEqual(v, left) {
		t.Errorf("left is %+v; want %+v", v, left)
	}
}
