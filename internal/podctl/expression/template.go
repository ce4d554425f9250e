package expression

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	// The standard library's template calls methods by their names, so that a linker keeps all methods of all types.
	template "github.com/DataDog/datadog-agent/pkg/template/text"
)

// templatePrinter prints a Go template.
type templatePrinter struct{ template *template.Template }

// Template returns a printer of Go templates, with kubectl's function base64decode.
func Template(text string) (Printer, error) {
	if text == "" {
		return nil, errors.New("the template is empty")
	}
	t, err := template.New("output").Funcs(template.FuncMap{"base64decode": base64decode}).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	return templatePrinter{t}, nil
}

// Print implements Printer.
func (p templatePrinter) Print(out io.Writer, doc any) error {
	if err := p.template.Execute(out, doc); err != nil {
		return fmt.Errorf("template: %w", err)
	}
	return nil
}

func base64decode(text string) (string, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", fmt.Errorf("base64 decode: %w", err)
	}
	return string(data), nil
}
