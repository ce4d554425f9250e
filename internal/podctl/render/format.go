package render

import (
	"errors"
	"fmt"
	"strings"

	"github.com/podstream/podstream/internal/podctl/expression"
)

// Format is the value of -o: one of the formats, or EXPRESSION=TEXT.
type Format string

// The formats.
const (
	TableFormat Format = "table"
	// WideFormat is the table with more columns; for a command without more columns it is the table.
	WideFormat Format = "wide"
	JSONFormat Format = "json"
	YAMLFormat Format = "yaml"
	// NameFormat prints KIND/NAME of each item.
	NameFormat Format = "name"
)

// The expressions.
const (
	jsonPathExpression = "jsonpath"
	columnsExpression  = "custom-columns"
)

// Formats are the words that -o takes; an expression ends in "=".
func Formats() []string {
	return []string{
		string(TableFormat), string(WideFormat), string(JSONFormat), string(YAMLFormat), string(NameFormat),
		jsonPathExpression + "=", columnsExpression + "=",
	}
}

// String implements pflag.Value.
func (o *Format) String() string { return string(*o) }

// Type implements pflag.Value.
func (o *Format) Type() string { return "format" }

// Set implements pflag.Value.
func (o *Format) Set(s string) error {
	switch v := Format(s); v {
	case TableFormat, WideFormat, JSONFormat, YAMLFormat, NameFormat:
		*o = v
		return nil
	}
	name, _, given := strings.Cut(s, "=")
	switch name {
	case jsonPathExpression, columnsExpression:
		if !given {
			return fmt.Errorf("want %s=..., with the expression", name)
		}
		_, _, err := Format(s).expression()
		if err == nil {
			*o = Format(s)
		}
		return err
	}
	if strings.HasPrefix(name, "go-template") {
		return errors.New("podctl has no Go templates: use jsonpath=, custom-columns=, or -o json with another program")
	}
	return errors.New("want table, wide, json, yaml or name, or an expression after jsonpath= or custom-columns=")
}

// expression parses the expression of the format. Both are nil for a format without one.
func (o Format) expression() (expression.Printer, *expression.Columns, error) {
	name, text, _ := strings.Cut(string(o), "=")
	switch name {
	case jsonPathExpression:
		printer, err := expression.JSONPath(text)
		return printer, nil, err
	case columnsExpression:
		columns, err := expression.ParseColumns(text)
		return nil, columns, err
	}
	return nil, nil, nil
}

// IsTable reports whether the output is a command's own table.
func (o Format) IsTable() bool { return o == TableFormat || o == WideFormat }
