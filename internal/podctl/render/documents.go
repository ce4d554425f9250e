package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// OrEmpty replaces nil by an empty list: JSON shows [], not null.
func OrEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Documents prints values as JSON or YAML. In a stream, each JSON document is one line, so that it can be read line
// by line, and YAML documents are separated by "---".
type Documents struct {
	Out     io.Writer
	Format  Format
	Stream  bool
	printed bool
}

// Print prints one value.
func (d *Documents) Print(v any) error {
	text, err := JSON(v)
	if err != nil {
		return err
	}
	switch {
	case d.Format == YAMLFormat:
		if text, err = YAML(text); err != nil {
			return err
		}
		if d.printed {
			text = "---\n" + text
		}
	case d.Stream:
		text = escapeJSON(text)
	default:
		text = escapeJSON(indent(text))
	}
	d.printed = true
	if _, err := io.WriteString(d.Out, text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
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
