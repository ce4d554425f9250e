package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// document is one of the YAML or JSON documents of an origin.
type document struct {
	// data is the document as written, without the "---" before it.
	data []byte
	// line is the line of the origin in which it begins, counted from 1.
	line int

	// empty is set by read if there is only white space, comments, or null.
	empty bool
	// json is the document as one JSON value. Nil if there is an err.
	json []byte
	// doubled are the keys that a mapping of YAML has more than once. Those of JSON are found when it is decoded.
	doubled []doubledKey
	// moreDoubled counts the doubled keys beyond maxDoubled.
	moreDoubled int
	// err is why the document can't be read.
	err error
}

// split cuts an origin into its documents, at lines that begin with a "---" or "..." of their own. It replaces
// apimachinery's YAMLReader, which returns no line numbers, gives up the document before a separator that it doesn't
// accept ("--- {}"), and hides what follows a "...".
func split(data []byte) iter.Seq[*document] {
	return func(yield func(*document) bool) {
		data := bytes.TrimPrefix(data, []byte("\ufeff"))
		begin, beginLine, line, offset := 0, 1, 1, 0
		for text := range bytes.Lines(data) {
			if isMarker(text, "---") || isMarker(text, "...") {
				if !yield(&document{data: data[begin:offset], line: beginLine}) {
					return
				}
				// What follows the marker in its line, a comment or even a value, is part of the document that it
				// begins.
				begin, beginLine = offset+3, line
			}
			offset += len(text)
			line++
		}
		yield(&document{data: data[begin:], line: beginLine})
	}
}

// DocumentText is one document of an origin, as it is written.
type DocumentText struct {
	// Text is the document without the marker before it. Parse reads it as it reads the document in its origin.
	Text []byte
	// Line is the line of the origin at which it begins, counted from 1.
	Line int
}

// Documents returns the documents of an origin that Parse would read. It parses none.
func Documents(data []byte) iter.Seq[DocumentText] {
	return func(yield func(DocumentText) bool) {
		for d := range split(data) {
			if !isBlank(d.data) && !yield(DocumentText{d.data, d.firstLine()}) {
				return
			}
		}
	}
}

// firstLine returns the line of the origin in which the document has its first text that isn't a comment.
func (d *document) firstLine() int {
	line := d.line
	for text := range bytes.Lines(d.data) {
		if !isBlank(text) {
			return line
		}
		line++
	}
	return d.line
}

// isMarker reports whether a line is a document marker.
func isMarker(line []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0)
}

// read sets all fields except data and line.
func (d *document) read() {
	if d.empty = isBlank(d.data); d.empty {
		return
	}
	if d.err = checkText(d.data, d.line); d.err != nil {
		return
	}
	if !yaml.IsJSONBuffer(d.data) {
		if d.err = checkMarks(d.data); d.err == nil {
			d.readYAML()
		}
		return
	}
	// A "{" begins a flow mapping of YAML as well, so YAML decides; but the message of the JSON parser is the better
	// one.
	if err := checkJSON(d.data, d.line); err != nil {
		if d.err = checkMarks(d.data); d.err != nil {
			return
		}
		if d.readYAML(); d.err != nil {
			d.err = err
		}
		return
	}
	if d.err = checkJSONValues(d.data); d.err == nil {
		d.json = d.data
	}
}

// isBlank reports whether there are only empty lines, comments and YAML directives.
func isBlank(data []byte) bool {
	for line := range bytes.Lines(data) {
		text := bytes.TrimSpace(line)
		if len(text) > 0 && text[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}

// checkText refuses what isn't text: the remains of a file after a crash, or a file of another kind.
func checkText(data []byte, line int) error {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return problemf("line %d: there is a NUL byte: this isn't a text file, or it was written in part only", lineAt(data, i, line))
	}
	if utf8.Valid(data) {
		return nil
	}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return problemf("line %d: there are bytes that aren't UTF-8 text", lineAt(data, i, line))
		}
		i += size
	}
	return nil
}

// checkJSON reports whether data is exactly one JSON value.
func checkJSON(data []byte, line int) error {
	var value json.RawMessage
	err := json.Unmarshal(data, &value)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		offset := min(max(int(syntax.Offset)-1, 0), len(data)-1)
		return problemf("line %d: this isn't valid JSON: %v", lineAt(data, offset, line), jsonProblem(syntax))
	}
	if err != nil {
		return problemf("this isn't valid JSON: %v", err)
	}
	return nil
}

// lineAt returns the line of the byte at offset, if data begins in the given line.
func lineAt(data []byte, offset, line int) int {
	return line + bytes.Count(data[:offset], []byte("\n"))
}

// Document returns a document of an origin as written, and the line in which it begins. n counts from 1, as in Finding: empty
// documents don't count.
func Document(data []byte, n int) (content []byte, line int, ok bool) {
	if len(data) > MaxSize {
		return nil, 0, false
	}
	defer waitTurn(len(data))()
	for d := range split(data) {
		if d.read(); d.empty {
			continue
		}
		if n--; n == 0 {
			return d.data, d.line, true
		}
	}
	return nil, 0, false
}
