package expression

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"k8s.io/client-go/util/jsonpath"
)

// Printer prints one document in the form of an expression. It isn't safe for concurrent use.
type Printer interface {
	Print(out io.Writer, doc any) error
}

// jsonPathPrinter prints a JSONPath template. A parsed one with a range can't be executed twice.
type jsonPathPrinter string

// JSONPath returns a printer of kubectl's JSONPath templates, such as {.items[*].metadata.name}. A field that is missing
// prints nothing.
func JSONPath(text string) (Printer, error) {
	if text == "" {
		return nil, errors.New("the JSONPath template is empty")
	}
	if _, err := jsonPathPrinter(text).parse(); err != nil {
		return nil, err
	}
	return jsonPathPrinter(text), nil
}

func (p jsonPathPrinter) parse() (*jsonpath.JSONPath, error) {
	path := jsonpath.New("output").AllowMissingKeys(true)
	if err := path.Parse(string(p)); err != nil {
		return nil, fmt.Errorf("JSONPath template %s: %w", p, err)
	}
	return path, nil
}

// Print implements Printer.
func (p jsonPathPrinter) Print(out io.Writer, doc any) error {
	path, err := p.parse()
	if err != nil {
		return err
	}
	if err := path.Execute(out, doc); err != nil {
		return fmt.Errorf("JSONPath template %s: %w", p, err)
	}
	return nil
}

// Path is a path to a field. It isn't safe for concurrent use.
type Path struct {
	path *jsonpath.JSONPath
	// Text is the path as it was given.
	Text string
}

// ParsePath parses a path to a field as --sort-by and custom columns take it: {.metadata.name}, .metadata.name, or
// metadata.name.
func ParsePath(text string) (*Path, error) {
	inner := strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(inner, "{"); ok {
		if inner, ok = strings.CutSuffix(rest, "}"); !ok {
			return nil, fmt.Errorf("path %s: the closing brace is missing", text)
		}
	}
	if inner == "" || strings.ContainsAny(inner, "{}") {
		return nil, fmt.Errorf("path %q: want a path to one field, such as .metadata.name", text)
	}
	if !strings.HasPrefix(inner, ".") && !strings.HasPrefix(inner, "[") {
		inner = "." + inner
	}
	path := jsonpath.New("path").AllowMissingKeys(true)
	if err := path.Parse("{" + inner + "}"); err != nil {
		return nil, fmt.Errorf("path %s: %w", text, err)
	}
	return &Path{path, text}, nil
}

// Values returns the values at the path. None: the item doesn't have the field.
func (p *Path) Values(item any) ([]any, error) {
	results, err := p.path.FindResults(item)
	if err != nil {
		return nil, fmt.Errorf("path %s: %w", p.Text, err)
	}
	var values []any
	for _, list := range results {
		for _, v := range list {
			for v.IsValid() && v.Kind() == reflect.Interface && !v.IsNil() {
				v = v.Elem()
			}
			if v.IsValid() && v.CanInterface() && v.Interface() != nil {
				values = append(values, v.Interface())
			}
		}
	}
	return values, nil
}
