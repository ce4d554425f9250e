package manifest

import (
	"encoding/json"
	"slices"
	"strings"
)

// yamlMistakes are the parser's texts for the most common mistakes. They quote nothing, so all callers see them.
var yamlMistakes = []string{
	"block sequence entries are not allowed in this context",
	"could not find expected ':'",
	"did not find expected '-' indicator",
	"did not find expected ',' or ']'",
	"did not find expected ',' or '}'",
	"did not find expected alphabetic or numeric character",
	"did not find expected comment or line break",
	"did not find expected key",
	"did not find expected node content",
	"found a tab character that violates indentation",
	"found a tab character where an indentation space is expected",
	"found character that cannot start any token",
	"found unexpected document indicator",
	"found unexpected end of stream",
	"found unknown escape character",
	"mapping keys are not allowed in this context",
	"mapping values are not allowed in this context",
	"there is more behind the end of the document",
}

// yamlText is the parser's text, hidden from the unquoted wording unless it is one of yamlMistakes. Among the quotes,
// a password that begins with an asterisk is the most likely one.
func yamlText(text string) any {
	if slices.Contains(yamlMistakes, text) {
		return word(text)
	}
	if name, ok := strings.CutPrefix(text, "unknown anchor '"); ok {
		if name, ok = strings.CutSuffix(name, "' referenced"); ok {
			return problemf("unknown anchor '%s' referenced", name)
		}
	}
	return text
}

// jsonProblem is a syntax error of JSON. It may quote only the invalid character; the rest describes its place in the
// syntax.
func jsonProblem(err *json.SyntaxError) *problem {
	text := err.Error()
	const invalid = "invalid character "
	quoted, ok := strings.CutPrefix(text, invalid)
	if !ok || len(quoted) < len("'x'") {
		if text == "unexpected end of JSON input" {
			return problemf("%s", word(text))
		}
		return problemf("%v", err)
	}
	// The character may be a quote or a space itself.
	end := strings.Index(quoted[1:], "' ")
	if end < 0 {
		return problemf("%v", err)
	}
	end += 1 + len("' ")
	return problemf(invalid+"%s %s", quoted[:end-1], word(quoted[end:]))
}
