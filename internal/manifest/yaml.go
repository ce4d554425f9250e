package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

const (
	// maxExpanded is the maximum size of a document once its aliases are replaced by their anchors' values, in bytes.
	maxExpanded = MaxSize
	// maxValues is the maximum number of values, counted the same way. A pod of MaxPodSize has far fewer.
	maxValues = 1 << 20
	// maxDoubled is how many doubled keys of a document are reported one by one: as many as the JSON decoder reports.
	maxDoubled = 100
)

// readYAML converts the document to JSON as the kubelet does (sigs.k8s.io/yaml, YAML 1.1). Unless it is plain, its
// syntax tree is checked before, in which aliases aren't expanded yet: a few lines of anchors can stand for
// gigabytes, which the conversion would write out. The tree also shows doubled keys; the converter's own strict mode
// takes a key that overrides one of a merge ("<<") for one of these.
func (d *document) readYAML() {
	if isPlain(d.data) {
		// The tree gives a better message for any error here.
		if data, err := yaml.YAMLToJSONStrict(d.data); err == nil && !bytes.Equal(data, []byte("null")) {
			d.json = data
			return
		}
	}
	root, err := parseYAML(d.data)
	if err != nil {
		d.err = problemf("this isn't valid YAML: %v", shiftLines(err, d.line-1))
		return
	}
	if d.empty = root == nil; d.empty {
		return
	}
	tree := yamlTree{weights: map[*yamlv3.Node]weight{}}
	if w := tree.weigh(root); w.bytes > maxExpanded || w.values > maxValues {
		d.err = problemf("it has too many values, or its anchors and aliases expand to too many: more than %d, or %d MiB of text",
			maxValues, maxExpanded>>20)
		return
	}
	tree.findDoubled(root, d.line-1)
	// The conversion builds trees of its own: this one must not stay in memory beside them.
	tree.weights = nil
	data, err := yaml.YAMLToJSON(d.data)
	if err != nil {
		d.err = problemf("this YAML can't be turned into JSON: %v", shiftLines(err, d.line-1))
		return
	}
	d.json, d.doubled, d.moreDoubled = data, tree.doubled, tree.moreDoubled
}

// maxPlain is the size in bytes up to which a document can be plain.
const maxPlain = 64 << 10

// isPlain reports whether the document is like nearly all documents, so that it can be converted without the check: a
// small mapping in block style, which can have nothing after its end, without anchors, aliases, merges and document
// ends. A wrong false only costs time.
func isPlain(data []byte) bool {
	if len(data) > maxPlain || bytes.ContainsAny(data, "&*") || bytes.Contains(data, []byte("<<")) || bytes.Contains(data, []byte("\n...")) {
		return false
	}
	for line := range bytes.Lines(data) {
		if text := bytes.TrimSpace(line); len(text) > 0 && text[0] != '#' {
			key, _, ok := bytes.Cut(line, []byte(":"))
			return ok && len(bytes.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")) == 0
		}
	}
	return false
}

// parseYAML returns the value of data, or nil if it has none, or null.
func parseYAML(data []byte) (*yamlv3.Node, error) {
	decoder := yamlv3.NewDecoder(bytes.NewReader(data))
	var root, more yamlv3.Node
	if err := decoder.Decode(&root); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	// A second value, as in "{} {}", would be ignored by the conversion.
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

// yamlTree checks a document's syntax tree. The parser bounds its depth.
type yamlTree struct {
	weights map[*yamlv3.Node]weight
	path    []string
	doubled []doubledKey
	// moreDoubled counts the doubled keys beyond maxDoubled.
	moreDoubled int
}

// weight is the size of a node with all that is below it.
type weight struct{ values, bytes int64 }

// weigh returns the weight of a node with its aliases expanded. Each anchor is weighed once, however often it is
// used, and sums stop growing a little over the limits, so they can't overflow.
func (t *yamlTree) weigh(n *yamlv3.Node) weight {
	if n.Kind == yamlv3.AliasNode {
		n = n.Alias
	}
	if n.Anchor != "" {
		if w, ok := t.weights[n]; ok {
			return w
		}
		// An anchor that contains itself counts once here; the conversion refuses it.
		t.weights[n] = weight{}
	}
	w := weight{values: 1, bytes: int64(len(n.Value))}
	for _, c := range n.Content {
		below := t.weigh(c)
		w.values = min(w.values+below.values, maxValues+1)
		w.bytes = min(w.bytes+below.bytes, maxExpanded+1)
	}
	if n.Anchor != "" {
		t.weights[n] = w
	}
	return w
}

// findDoubled records the keys that a mapping has twice. line is the line of the document in its origin.
func (t *yamlTree) findDoubled(n *yamlv3.Node, line int) {
	switch n.Kind {
	case yamlv3.MappingNode:
		seen := make(map[string]bool, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			name := key.Value
			if len(t.path) > 0 {
				name = "." + name
			}
			t.path = append(t.path, name)
			if key.Kind == yamlv3.ScalarNode && key.Tag != "!!merge" {
				if seen[key.Value] {
					t.addDoubled(line + key.Line)
				}
				seen[key.Value] = true
			}
			t.findDoubled(value, line)
			t.path = t.path[:len(t.path)-1]
		}
	case yamlv3.SequenceNode:
		for i, c := range n.Content {
			t.path = append(t.path, "["+strconv.Itoa(i)+"]")
			t.findDoubled(c, line)
			t.path = t.path[:len(t.path)-1]
		}
	}
}

// addDoubled records the key of a path. As paths may be as long as a document is deep, both their number and their
// length are bounded; a report would cut them anyway.
func (t *yamlTree) addDoubled(line int) {
	if len(t.doubled) == maxDoubled {
		t.moreDoubled++
		return
	}
	var path strings.Builder
	for _, name := range t.path {
		// A little more than a message, so that the report cuts it and shows that.
		room := maxMessage + utf8.UTFMax - path.Len()
		if room <= 0 {
			break
		}
		path.WriteString(name[:min(len(name), room)])
	}
	t.doubled = append(t.doubled, doubledKey{path.String(), line})
}

var (
	lineNumber = regexp.MustCompile(`line (\d+)`)
	// firstLine matches the number that is certainly the parser's, and not part of a quote.
	firstLine = regexp.MustCompile(`^near line \d+: `)
)

// shiftLines turns the line of a parser's error, counted from the document's start, into one counted from the
// origin's. For some errors the parser returns the line in which the surrounding value begins, so it is "near".
func shiftLines(err error, by int) *problem {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text = lineNumber.ReplaceAllStringFunc(text, func(m string) string {
		n, err := strconv.Atoi(strings.TrimPrefix(m, "line "))
		if err != nil {
			return m
		}
		return "near line " + strconv.Itoa(n+by)
	})
	place := firstLine.FindString(text)
	return problemf("%s%s", word(place), yamlText(text[len(place):]))
}
