package podctl

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
)

// table prints aligned columns with kubectl's spacing. A column never gets narrower, so that lines which come later stay
// aligned with those on the screen. Cells are escaped.
type table struct {
	header []string // printed with the first row
	out    *bufio.Writer
	tabs   interface {
		io.Writer
		Flush() error
	}
}

func newTable(w io.Writer, header ...string) *table {
	// The tab writer writes a cell at a time.
	out := bufio.NewWriter(w)
	return &table{header: header, out: out, tabs: printers.GetNewTabWriter(out)}
}

// row adds a line. It is printed by flush, which also returns the error of writing it.
func (t *table) row(cells ...string) {
	if t.header != nil {
		header := t.header
		t.header = nil
		t.row(header...)
	}
	escaped := make([]string, len(cells))
	for i, cell := range cells {
		escaped[i] = orDash(escapeText(cell))
	}
	_, _ = io.WriteString(t.tabs, strings.Join(escaped, "\t")+"\n")
}

// flush prints the rows added since the last one.
func (t *table) flush() error {
	err := t.tabs.Flush()
	if err == nil {
		err = t.out.Flush()
	}
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// orDash makes an absent value visible.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// documents prints values as JSON or YAML. As a stream, JSON documents are one line each, so that they can be read line by
// line, and YAML documents are separated by "---".
type documents struct {
	out     io.Writer
	output  output
	stream  bool
	printed bool
}

func (d *documents) print(v any) error {
	text, err := encode(v)
	if err != nil {
		return err
	}
	switch {
	case d.output == outputYAML:
		if text, err = toYAML(text); err != nil {
			return err
		}
		if d.printed {
			text = "---\n" + text
		}
	case d.stream:
		text = escapeJSON(text)
	default:
		text = escapeJSON(indent(text))
	}
	d.printed = true
	if _, err := io.WriteString(d.out, text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// encode returns v as JSON in one line.
func encode(v any) (string, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false) // this is for terminals and jq
	if err := encoder.Encode(v); err != nil {
		return "", fmt.Errorf("encode for output: %w", err)
	}
	return b.String(), nil
}

// toYAML turns JSON into YAML. YAML can't escape everywhere, for instance not in its block scalars; a document that needs
// it is given as JSON, which is YAML too.
func toYAML(text string) (string, error) {
	// The JSON is read as YAML, which doesn't take control characters that JSON takes, and folds lines at some.
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

// protoValue is a message as it stands in a document: in protobuf's JSON, with the zero values written out, so that a reader
// sees `"ready": false` rather than nothing.
type protoValue struct{ proto.Message }

// MarshalJSON implements json.Marshaler.
func (v protoValue) MarshalJSON() ([]byte, error) {
	return protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(v.Message)
}
