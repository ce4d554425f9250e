package document

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

// Field is the way to a value from the document's root: names of fields, and places in lists as Index gives them.
type Field []string

// Index is the element of a Field for a place in a list.
func Index(i int) string { return "[" + strconv.Itoa(i) + "]" }

// With is the field that is reached from f by more elements.
func (f Field) With(more ...string) Field { return append(f[:len(f):len(f)], more...) }

// String is the field as people write it: files[0].path.
func (f Field) String() string {
	var out strings.Builder
	for i, name := range f {
		if i > 0 && !strings.HasPrefix(name, "[") {
			out.WriteByte('.')
		}
		out.WriteString(name)
	}
	return out.String()
}

// FieldError is one thing that is wrong in a configuration file.
type FieldError struct {
	File string
	// Line counts from 1; zero means the file as a whole.
	Line int
	// Field may be empty.
	Field string
	// Reason quotes no values that may be secret.
	Reason string
}

// Error is the mistake in the form that editors jump to: FILE:LINE: FIELD: REASON.
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

// Mistake complains about the value of a field. If there is no such field, the line is that of the nearest one around it.
func (d *Document) Mistake(f Field, reason string) *FieldError {
	return &FieldError{File: d.File, Line: d.Line(f), Field: f.String(), Reason: reason}
}

// Line is where the field begins, or the nearest one around it that there is.
func (d *Document) Line(f Field) int {
	line, node := d.root.Line, d.root
	for _, name := range f {
		key, value := child(node, name)
		if value == nil {
			break
		}
		line, node = key.Line, value
	}
	return line
}

// child is the key (in a list: the value) and the value of a name below a node; nil if there is none. The last one counts of those
// that are doubled.
func child(n *yamlv3.Node, name string) (key, value *yamlv3.Node) {
	if n.Kind == yamlv3.AliasNode {
		n = n.Alias
	}
	switch n.Kind {
	case yamlv3.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == name {
				key, value = n.Content[i], n.Content[i+1]
			}
		}
	case yamlv3.SequenceNode:
		i, err := strconv.Atoi(strings.Trim(name, "[]"))
		if err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
	}
	return key, value
}

var (
	parserLine = regexp.MustCompile(`^line (\d+): `)
	// lineBefore are the errors for which the parser counts lines from zero.
	lineBefore = regexp.MustCompile(`^did not find expected (node content|key|'-'|',' or|<)|^found a tab character`)
)

// syntaxMistake is a parser's error about a text, whose lines are those of the file.
func syntaxMistake(file string, text []byte, err error) *FieldError {
	reason := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: ")
	m := &FieldError{File: file}
	if place := parserLine.FindStringSubmatch(reason); place != nil {
		reason = reason[len(place[0]):]
		m.Line, _ = strconv.Atoi(place[1])
		if lineBefore.MatchString(reason) {
			m.Line++
		}
		m.Line = min(m.Line, max(1, bytes.Count(bytes.TrimRight(text, "\n"), []byte("\n"))+1))
	}
	m.Reason = "this isn't valid YAML: " + reason
	return m
}
