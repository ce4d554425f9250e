package podctl

import (
	"fmt"
	"io"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/podstream/podstream/internal/podctl/render"
)

// printTextDiff prints the difference of two versions of a file in the form of diff -u.
func (t *tool) printTextDiff(path, before, after string) error {
	const lines = 3 // of context
	name := render.Escape(path)
	text, err := udiff.ToUnified(name+" (before)", name+" (now)", before, udiff.Lines(before, after), lines)
	if err != nil {
		return fmt.Errorf("compare %s: %w", path, err)
	}
	for line := range strings.Lines(text) {
		if _, err := io.WriteString(t.Stdout, render.Escape(strings.TrimSuffix(line, "\n"))+"\n"); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return nil
}
