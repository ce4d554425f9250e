package logtest

import (
	"fmt"
	"slices"
	"testing"
)

func TestBuffer(t *testing.T) {
	var b Buffer
	if b.Count() != 0 || b.Lines() != nil || b.Take() != nil || b.String() != "" {
		t.Errorf("an empty buffer has %q", b.Lines())
	}
	for _, line := range []string{"level=WARN a b", "level=INFO b", ""} {
		fmt.Fprintln(&b, line)
	}
	if b.Count() != 3 || b.Count("b") != 2 || b.Count("b", "WARN") != 1 || b.Count("c") != 0 {
		t.Errorf("%d lines, %d with b, %d with b and WARN, %d with c", b.Count(), b.Count("b"), b.Count("b", "WARN"), b.Count("c"))
	}
	want := []string{"level=WARN a b", "level=INFO b", ""}
	if got := b.Lines(); !slices.Equal(got, want) {
		t.Errorf("lines %q; want %q", got, want)
	}
	if got := b.Take(); !slices.Equal(got, want) || b.String() != "" {
		t.Errorf("took %q; want %q, and nothing left of %q", got, want, b.String())
	}
}
