package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/podstream/podstream/internal/podctl/expression"
)

// OrEmpty replaces nil by an empty list: JSON shows [], not null.
func OrEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Documents prints values as JSON or YAML, or what an expression makes of them. In a stream, each JSON document is one line,
// so that it can be read line by line, and YAML documents are separated by "---".
type Documents struct {
	Out    io.Writer
	Format Format
	Stream bool
	// Kind is the kind of the items in `-o name`: "pod". Empty: they have no names.
	Kind string
	// NoHeaders leaves out the names of custom columns.
	NoHeaders bool

	printed bool
	// columns is the table of custom columns, once there is a document.
	columns *Table
}

// Print prints one value.
func (d *Documents) Print(v any) error {
	var text string
	var err error
	switch d.Format {
	case JSONFormat, YAMLFormat:
		text, err = d.text(v)
	case NameFormat:
		text, err = d.names(v)
	default:
		text, err = d.evaluated(v)
	}
	if err != nil {
		return err
	}
	d.printed = true
	if _, err := io.WriteString(d.Out, text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// text returns the document in JSON or YAML.
func (d *Documents) text(v any) (string, error) {
	text, err := JSON(v)
	switch {
	case err != nil:
		return "", err
	case d.Format == YAMLFormat:
		if text, err = YAML(text); err != nil {
			return "", err
		}
		if d.printed {
			text = "---\n" + text
		}
		return text, nil
	case d.Stream:
		return escapeJSON(text), nil
	}
	return escapeJSON(indent(text)), nil
}

// names returns a line KIND/NAME for each item.
func (d *Documents) names(v any) (string, error) {
	doc, err := expression.Document(v)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, item := range expression.Items(doc) {
		name := expression.Name(item)
		if d.Kind == "" || name == "" {
			return "", errors.New("-o name: what this command prints has no names")
		}
		b.WriteString(Escape(d.Kind+"/"+name) + "\n")
	}
	return b.String(), nil
}

// evaluated returns what the expression makes of a document. Custom columns are printed at once.
func (d *Documents) evaluated(v any) (string, error) {
	printer, columns, err := d.Format.expression()
	if err != nil {
		return "", err
	}
	doc, err := expression.Document(v)
	switch {
	case err != nil:
		return "", err
	case columns != nil:
		return "", d.row(columns, expression.Items(doc))
	case printer == nil:
		return "", fmt.Errorf("there is no output format %q", d.Format)
	}
	var b strings.Builder
	if err := printer.Print(&b, doc); err != nil {
		return "", err
	}
	return escapeLines(b.String()), nil
}

// row prints a line for each item.
func (d *Documents) row(columns *expression.Columns, items []any) error {
	if d.columns == nil {
		d.columns = NewTable(d.Out, columns.Headers...)
		if d.NoHeaders {
			d.columns = NewTable(d.Out)
		}
	}
	for _, item := range items {
		cells, err := columns.Row(item)
		if err != nil {
			return err
		}
		d.columns.Row(cells...)
	}
	return d.columns.Flush()
}

// JSON returns v as JSON in one line.
func JSON(v any) (string, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false) // the output is for terminals and jq
	if err := encoder.Encode(v); err != nil {
		return "", fmt.Errorf("encode for output: %w", err)
	}
	return b.String(), nil
}

// YAML turns JSON into YAML. YAML can't escape everywhere, for instance not in its block scalars; a document that
// needs escapes is given as JSON, which is YAML too.
func YAML(text string) (string, error) {
	// The JSON is read as YAML, which rejects some control characters that JSON accepts, and folds lines at others.
	out, err := yaml.JSONToYAML([]byte(escapeJSONAsYAML(text)))
	if err != nil {
		return "", fmt.Errorf("encode for output: %w", err)
	}
	if isSafe(string(out)) {
		return string(out), nil
	}
	return escapeJSONAsYAML(indent(text)), nil
}

func indent(text string) string {
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(text), "", "    "); err != nil {
		panic(fmt.Sprintf("podctl: encoding/json wrote what it can't read: %v", err))
	}
	return b.String()
}
