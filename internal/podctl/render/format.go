package render

import "errors"

// Format is the value of -o.
type Format string

// The formats.
const (
	TableFormat Format = "table"
	// WideFormat is the table with more columns; for a command without more columns it is the table.
	WideFormat Format = "wide"
	JSONFormat Format = "json"
	YAMLFormat Format = "yaml"
)

// String implements pflag.Value.
func (o *Format) String() string { return string(*o) }

// Type implements pflag.Value.
func (o *Format) Type() string { return "format" }

// Set implements pflag.Value.
func (o *Format) Set(s string) error {
	switch v := Format(s); v {
	case TableFormat, WideFormat, JSONFormat, YAMLFormat:
		*o = v
		return nil
	}
	return errors.New("want table, wide, json or yaml")
}

// IsTable reports whether the output is a table.
func (o Format) IsTable() bool { return o == TableFormat || o == WideFormat }
