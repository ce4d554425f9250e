package document

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

// Field is the path to a value from the document's root: names of fields, and indexes of lists as Index returns them.
type Field []string

// Index returns the element of a Field for an index of a list.
func Index(i int) string { return "[" + strconv.Itoa(i) + "]" }

// With returns f extended by more elements.
func (f Field) With(more ...string) Field { return append(f[:len(f):len(f)], more...) }

// plainName matches names of fields. Another key may be a value in a wrong place: a header written
// "Authorization:Bearer …", without the space, is a key as a whole.
var plainName = regexp.MustCompile(`^([A-Za-z0-9._-]{1,64}|\[[0-9]+\])$`)

// hidden replaces a name that isn't shown.
const hidden = "…"

// String returns the path as text: files[0].path. Keys that can't be names of fields aren't shown.
func (f Field) String() string {
	var out strings.Builder
	for i, name := range f {
		if i > 0 && !strings.HasPrefix(name, "[") {
			out.WriteByte('.')
		}
		if !plainName.MatchString(name) {
			name = hidden
		}
		out.WriteString(name)
	}
	return out.String()
}

// FieldError is one error in a configuration file.
type FieldError struct {
	File string
	// Line counts from 1; zero means the file as a whole.
	Line int
	// Field may be empty.
	Field string
	// Reason quotes no values that may be secret.
	Reason string
}

// Error returns the error in the form that editors can open: FILE:LINE: FIELD: REASON.
func (e *FieldError) Error() string {
	place := e.File
	if e.Line > 0 {
		place = fmt.Sprintf("%s:%d", place, e.Line)
	}
	if e.Field != "" {
		place += ": " + e.Field
	}
	// A parser's reason may have several lines.
	return place + ": " + strings.ReplaceAll(e.Reason, "\n", " ")
}

// Mistake returns an error about the value of a field. If the field doesn't exist, the line is that of the nearest
// enclosing one.
func (d *Document) Mistake(f Field, reason string) *FieldError {
	return &FieldError{File: d.File, Line: d.Line(f), Field: f.String(), Reason: reason}
}

// MistakeIn returns an error about a key of the mapping f, with that key's line, and without the key: it may be a
// secret and no name.
func (d *Document) MistakeIn(f Field, key, reason string) *FieldError {
	return &FieldError{File: d.File, Line: d.Line(f.With(key)), Field: f.String(), Reason: reason}
}

// Line returns where the field begins, or the nearest enclosing one that exists.
func (d *Document) Line(f Field) int {
	line, node := d.root.Line, d.root
	for _, name := range f {
		key, value := d.child(node, name)
		if value == nil {
			break
		}
		line, node = key.Line, value
	}
	return line
}

// child returns the key (in a list: the value) and the value of a name below a node; nil if there is none. Of doubled
// ones the last one counts.
func (d *Document) child(n *yamlv3.Node, name string) (key, value *yamlv3.Node) {
	if n.Kind == yamlv3.AliasNode {
		n = n.Alias
	}
	switch n.Kind {
	case yamlv3.MappingNode:
		if i, ok := d.keysOf(n)[name]; ok {
			return n.Content[i], n.Content[i+1]
		}
	case yamlv3.SequenceNode:
		i, err := strconv.Atoi(strings.Trim(name, "[]"))
		if err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
	}
	return nil, nil
}

// keysOf returns where the keys of a mapping are in its Content. It is made once for each mapping, as there may be an
// error about each key.
func (d *Document) keysOf(n *yamlv3.Node) map[string]int {
	if keys, ok := d.keys[n]; ok {
		return keys
	}
	keys := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		keys[n.Content[i].Value] = i
	}
	if d.keys == nil {
		d.keys = map[*yamlv3.Node]map[string]int{}
	}
	d.keys[n] = keys
	return keys
}
