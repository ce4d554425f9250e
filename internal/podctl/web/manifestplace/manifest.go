package manifestplace

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/podstream/podstream/internal/manifest"
)

// MaxSize is the size of a manifest in which places are looked for.
const MaxSize = 1 << 20

// Place is where a mistake is. The zero value: it isn't known.
type Place struct {
	// Line and Column are counted from 1, the column in characters.
	Line, Column int
	// End is the column after the marked text in the same line. Zero: the whole line is marked.
	End int
}

// Manifest is the content of an origin. It keeps what it has parsed; it is not safe for concurrent use.
type Manifest struct {
	data      []byte
	lines     [][]byte
	documents map[int]*document
}

type document struct {
	root *yaml.Node // nil: it can't be parsed
	line int        // in which it begins
}

// otherBreaks are the line breaks of YAML that other programs don't count as lines.
var otherBreaks = regexp.MustCompile("\r(?:[^\n]|$)|[\u0085\u2028\u2029]")

// New returns a Manifest. Of content that is too large, or whose lines YAML counts otherwise than an editor, no place is known.
func New(content []byte) *Manifest {
	if len(content) > MaxSize || otherBreaks.Match(content) {
		content = nil
	}
	return &Manifest{data: content, lines: bytes.Split(content, []byte("\n")), documents: map[int]*document{}}
}

// lineText finds the line that a message names.
var lineText = regexp.MustCompile(`\bline ([0-9]{1,7})\b`)

// Find returns the place of a finding with these fields. A field that doesn't exist is missing in the last one that does.
func (m *Manifest) Find(number int, field, message string) Place {
	if len(m.data) == 0 {
		return Place{}
	}
	if found := lineText.FindStringSubmatch(message); found != nil {
		if line, err := strconv.Atoi(found[1]); err == nil && line >= 1 && line <= len(m.lines) {
			return Place{Line: line, Column: 1}
		}
	}
	if number < 1 {
		return Place{}
	}
	d := m.document(number)
	if d == nil {
		return Place{}
	}
	if d.root == nil {
		return Place{Line: d.line, Column: 1}
	}
	key, value := lookUp(d.root, elements(field))
	return m.place(d, key, value)
}

// document returns a document. Nil: there is none.
func (m *Manifest) document(number int) *document {
	if d, known := m.documents[number]; known {
		return d
	}
	content, line, ok := manifest.Document(m.data, number)
	if !ok {
		m.documents[number] = nil
		return nil
	}
	d := &document{line: line}
	root := new(yaml.Node)
	if yaml.Unmarshal(content, root) == nil && len(root.Content) == 1 {
		d.root = root.Content[0]
	}
	m.documents[number] = d
	return d
}

// place returns the place of a member: that of its key, and of its value if that is in the same line. Without a key, it is
// that of the value.
func (m *Manifest) place(d *document, key, value *yaml.Node) Place {
	first := key
	if first == nil {
		first = value
	}
	at := Place{Line: d.line - 1 + first.Line, Column: first.Column}
	if first.Line == 1 && d.line > 1 {
		// The text of the document begins after its marker "---".
		at.Column += len("---")
	}
	end := at.Column + width(first)
	if key != nil && value.Kind == yaml.ScalarNode && value.Line == key.Line {
		end = at.Column + value.Column - key.Column + width(value)
	}
	if first.Kind == yaml.ScalarNode && at.Line >= 1 && at.Line <= len(m.lines) {
		// An escape in a quoted text makes it longer than its value.
		at.End = min(end, len([]rune(string(m.lines[at.Line-1])))+1)
	}
	return at
}

// width returns how many characters a scalar takes, if it is in one line and has no escapes.
func width(n *yaml.Node) int {
	if n.Kind != yaml.ScalarNode {
		return 1
	}
	first, _, _ := strings.Cut(n.Value, "\n")
	quotes := 0
	if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		quotes = len(`""`)
	}
	return max(len([]rune(first))+quotes, 1)
}
