package document

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

var (
	parserLine = regexp.MustCompile(`^line (\d+): `)
	// lineBefore matches the errors for which the parser counts lines from zero.
	lineBefore = regexp.MustCompile(`^did not find expected (node content|key|'-'|',' or|<)|^found a tab character`)
	// wordsOnly matches the parser's errors that quote nothing of the text.
	wordsOnly = regexp.MustCompile(`^(did not find |found |mapping (keys|values) are |block sequence entries |could not find expected |` +
		`control characters |exceeded max depth |document contains excessive aliasing|map merge requires |there is more behind )`)
)

// quoting matches those that quote the text, which may be a secret, with their replacements.
var quoting = []struct {
	parser *regexp.Regexp
	reason string
}{
	{regexp.MustCompile(`^unknown anchor `), "an alias refers to an anchor that there isn't"},
	{regexp.MustCompile(`^anchor .* value contains itself`), "an anchor contains itself"},
	{regexp.MustCompile(`^cannot decode |^!!\w+ value contains |^cannot unmarshal `), "a value isn't what its tag says"},
	{regexp.MustCompile(`^invalid map key|^unsupported map key`), "a key isn't text"},
}

// syntaxReason returns a parser's error without its quotes.
func syntaxReason(parser string) string {
	if wordsOnly.MatchString(parser) {
		return parser
	}
	for _, q := range quoting {
		if q.parser.MatchString(parser) {
			return q.reason
		}
	}
	return "the parser can't read it"
}

// syntaxMistake returns a parser's error about a text, whose lines are those of the file.
func syntaxMistake(file string, text []byte, err error) *FieldError {
	reason := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: ")
	m := &FieldError{File: file}
	if place := parserLine.FindStringSubmatch(reason); place != nil {
		reason = reason[len(place[0]):]
		m.Line, _ = strconv.Atoi(place[1])
		if lineBefore.MatchString(reason) {
			m.Line++
		}
		m.Line = min(m.Line, max(1, bytes.Count(bytes.TrimRight(text, "\n"), []byte("\n"))+1))
	}
	m.Reason = "this isn't valid YAML: " + syntaxReason(reason)
	return m
}

// Syntax returns why a file isn't YAML, without quoting it; nil if it is.
func Syntax(file string, data []byte) error {
	if _, err := yaml.YAMLToJSON(data); err != nil {
		return syntaxMistake(file, data, err)
	}
	return nil
}
