package render

import (
	"bytes"
	"fmt"
	"io"
	"unicode/utf8"
)

// Text passes on text for a terminal that a program in a container wrote: with its line ends, tabs and colours. It writes
// every other character on which a terminal acts, or which it doesn't show, as a Go escape. A character or a colour may be
// split between two writes; Flush writes the rest.
//
// A colour ends with its line, so that no text changes the look of another one's.
type Text struct {
	Out io.Writer
	// rest is the beginning of a character or a colour.
	rest []byte
	// coloured is set if a colour hasn't ended.
	coloured bool
}

// colourEnd sets the terminal's own colours.
const colourEnd = "\x1b[0m"

// Write implements io.Writer.
func (t *Text) Write(p []byte) (int, error) {
	if err := t.write(append(t.rest, p...), false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes what is incomplete, and ends a colour.
func (t *Text) Flush() error {
	if err := t.write(t.rest, true); err != nil || !t.coloured {
		return err
	}
	t.coloured = false
	_, err := io.WriteString(t.Out, colourEnd)
	return err
}

// write writes text. Unless it is the last one, an incomplete end is kept.
func (t *Text) write(text []byte, last bool) error {
	var out bytes.Buffer
	for len(text) > 0 {
		n := t.next(&out, text, last)
		if n == 0 {
			break
		}
		text = text[n:]
	}
	t.rest = bytes.Clone(text)
	if _, err := t.Out.Write(out.Bytes()); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// next writes the first printable characters, other character or colour of text, and returns its length; zero: it is incomplete.
func (t *Text) next(out *bytes.Buffer, text []byte, last bool) int {
	if n := printableASCII(text); n > 0 {
		out.Write(text[:n])
		return n
	}
	switch text[0] {
	case '\n':
		if t.coloured {
			t.coloured = false
			out.WriteString(colourEnd)
		}
		out.WriteByte('\n')
		return 1
	case '\t':
		out.WriteByte('\t')
		return 1
	case 0x1b:
		n, reset, ok := colour(text)
		switch {
		case ok && n == 0 && !last:
			return 0
		case ok && n > 0:
			t.coloured = !reset
			out.Write(text[:n])
			return n
		}
	}
	if !last && !utf8.FullRune(text) {
		return 0
	}
	_, n := utf8.DecodeRune(text)
	out.WriteString(Escape(string(text[:n])))
	return n
}

// printableASCII returns how many bytes at the beginning of text are printable characters of ASCII: most of a log is.
func printableASCII(text []byte) int {
	for i, b := range text {
		if b < ' ' || b > '~' {
			return i
		}
	}
	return len(text)
}
