package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

const (
	// MaxSize is the maximum size of a configuration file, in bytes.
	MaxSize = 1 << 20
	// maxDocuments is the maximum number of its documents, empty ones included.
	maxDocuments = 64
)

// Document is one document of a file: a mapping with apiVersion and kind. It is for one goroutine.
type Document struct {
	// File is the path of the file.
	File string
	// APIVersion and Kind are the document's type. Neither is empty.
	APIVersion, Kind string

	root  *yamlv3.Node
	value map[string]any
	// keys caches the results of keysOf.
	keys map[*yamlv3.Node]map[string]int
}

// Parse reads the documents of a file, with values as the kubelet reads them (YAML 1.1). Empty ones are left out. Its
// errors are FieldErrors.
func Parse(file string, data []byte) ([]*Document, error) {
	if len(data) > MaxSize {
		return nil, &FieldError{File: file, Reason: fmt.Sprintf("it has %d bytes; at most %d are read", len(data), MaxSize)}
	}
	if err := checkText(file, data); err != nil {
		return nil, err
	}
	parts := split(data)
	if len(parts) > maxDocuments {
		return nil, &FieldError{File: file, Reason: fmt.Sprintf("it has more than %d documents", maxDocuments)}
	}
	var docs []*Document
	for _, part := range parts {
		doc, err := parseOne(file, part)
		if err != nil {
			return nil, err
		}
		if doc != nil {
			docs = append(docs, doc)
		}
	}
	return docs, nil
}

// parseOne returns nil if the text is empty. Its lines are those of the file.
func parseOne(file string, text []byte) (*Document, error) {
	root, err := tree(text)
	if err != nil {
		return nil, syntaxMistake(file, text, err)
	}
	if root == nil {
		return nil, nil
	}
	d := &Document{File: file, root: root}
	if root.Kind != yamlv3.MappingNode {
		return nil, d.Mistake(nil, "want a mapping with apiVersion and kind")
	}
	if expanded(root, map[*yamlv3.Node]int{}) > MaxSize {
		return nil, d.Mistake(nil, "its anchors and aliases expand to too much")
	}
	data, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, syntaxMistake(file, text, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	// Numbers keep their text.
	decoder.UseNumber()
	if err := decoder.Decode(&d.value); err != nil {
		return nil, d.Mistake(nil, "its values can't be read")
	}
	var mistakes [2]error
	d.APIVersion, mistakes[0] = d.head("apiVersion")
	d.Kind, mistakes[1] = d.head("kind")
	return d, errors.Join(mistakes[:]...)
}

// head returns the value of apiVersion or kind.
func (d *Document) head(key string) (string, error) {
	value, ok := d.value[key].(string)
	if !ok || value == "" {
		return "", d.Mistake(nil, key+" is missing")
	}
	return value, nil
}

// tree returns the syntax tree of the document in the text, or nil if it is empty.
func tree(text []byte) (*yamlv3.Node, error) {
	decoder := yamlv3.NewDecoder(bytes.NewReader(text))
	var root, more yamlv3.Node
	if err := decoder.Decode(&root); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := decoder.Decode(&more); err == nil {
		return nil, fmt.Errorf("line %d: there is more behind the end of the document", more.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(root.Content) == 0 || root.Content[0].Tag == "!!null" {
		return nil, nil
	}
	return root.Content[0], nil
}

// expanded returns about how many bytes a node has once its aliases are replaced by their anchors' values. Each
// anchor is counted once, and sums stop growing beyond MaxSize.
func expanded(n *yamlv3.Node, known map[*yamlv3.Node]int) int {
	if n.Kind == yamlv3.AliasNode {
		n = n.Alias
	}
	if size, ok := known[n]; ok {
		return size
	}
	// An anchor that contains itself is refused by the conversion.
	known[n] = 0
	size := 1 + len(n.Value)
	for _, c := range n.Content {
		size = min(size+expanded(c, known), MaxSize+1)
	}
	known[n] = size
	return size
}

// split cuts the text at document markers. Each part begins with as many empty lines as precede it in the file, so
// that a parser counts the file's lines.
func split(data []byte) [][]byte {
	var parts [][]byte
	part, line := []byte(nil), 0
	for text := range bytes.Lines(bytes.TrimPrefix(data, []byte("\ufeff"))) {
		if isMarker(text) {
			if !isPreamble(part) {
				parts = append(parts, part)
			}
			if len(parts) > maxDocuments {
				return parts
			}
			// What follows the marker in its line, a comment or even a value, belongs to the document that it begins.
			part, text = bytes.Repeat([]byte("\n"), line), text[3:]
		}
		part = append(part, text...)
		line++
	}
	if isPreamble(part) {
		return parts
	}
	return append(parts, part)
}

// isPreamble reports whether a part has directives (%YAML, %TAG) and otherwise only comments. Directives belong to
// the next document, and set only what Parse assumes anyway.
func isPreamble(part []byte) bool {
	directives := false
	for line := range bytes.Lines(part) {
		switch text := bytes.TrimSpace(line); {
		case line[0] == '%':
			directives = true
		case len(text) > 0 && text[0] != '#':
			return false
		}
	}
	return directives
}

func isMarker(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return false
	}
	return len(line) == 3 || bytes.IndexByte([]byte(" \t\r\n"), line[3]) >= 0
}

// checkText refuses what isn't text: the remains of a file after a crash, or a file of another kind.
func checkText(file string, data []byte) error {
	line := 1
	for text := range bytes.Lines(data) {
		if bytes.IndexByte(text, 0) >= 0 || !utf8.Valid(text) {
			return &FieldError{File: file, Line: line, Reason: "there are bytes that aren't UTF-8 text"}
		}
		line++
	}
	return nil
}

// Value returns the document as JSON values: map[string]any, []any, string, json.Number, bool and nil. The caller
// mustn't change it.
func (d *Document) Value() map[string]any { return d.value }

// Resolve makes a path absolute; it is relative to the file's directory. An empty path stays empty.
func (d *Document) Resolve(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(d.File), path)
}
