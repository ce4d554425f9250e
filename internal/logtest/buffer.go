// Package logtest records log output for tests. Only tests import it. It runs no goroutines.
package logtest

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

// Buffer records log lines. It is safe for concurrent use, so that a test may read it while the tested code writes. Its zero
// value is empty.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write is part of io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns all lines.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Count returns the number of lines that contain all the words; without words, the number of lines.
func (b *Buffer) Count(words ...string) int {
	n := 0
	for line := range strings.Lines(b.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
}

// Lines returns the lines, without their ends.
func (b *Buffer) Lines() []string { return lines(b.String()) }

// Take returns the lines like Lines, and removes them.
func (b *Buffer) Take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.text.Reset()
	return lines(b.text.String())
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}
