package render

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/liggitt/tabwriter"
)

// Table prints aligned columns with kubectl's spacing. A column never gets narrower, so that later lines stay aligned
// with those on the screen. Cells are escaped.
type Table struct {
	header []string // printed with the first row; empty: none
	out    *bufio.Writer
	tabs   interface {
		io.Writer
		Flush() error
	}
}

// NewTable returns a Table that prints to w. Without a header it prints rows only.
func NewTable(w io.Writer, header ...string) *Table {
	// The tab writer writes a cell at a time.
	out := bufio.NewWriter(w)
	// kubectl's widths.
	const narrowest, tab, between = 6, 4, 3
	return &Table{header: header, out: out, tabs: tabwriter.NewWriter(out, narrowest, tab, between, ' ', tabwriter.RememberWidths)}
}

// Row adds a line. Flush prints it, and returns the error of writing it.
func (t *Table) Row(cells ...string) {
	if len(t.header) > 0 {
		header := t.header
		t.header = nil
		t.Row(header...)
	}
	escaped := make([]string, len(cells))
	for i, cell := range cells {
		escaped[i] = OrDash(Escape(cell))
	}
	_, _ = io.WriteString(t.tabs, strings.Join(escaped, "\t")+"\n")
}

// Flush prints the rows added since the last Flush.
func (t *Table) Flush() error {
	err := t.tabs.Flush()
	if err == nil {
		err = t.out.Flush()
	}
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// OrDash makes an absent value visible.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
