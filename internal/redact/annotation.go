package redact

import (
	"encoding/base64"
	"reflect"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	v1 "k8s.io/api/core/v1"
)

const (
	// maxAnnotation is the length in bytes of the longest annotation that is shown. Longer ones are rarely written by
	// hand.
	maxAnnotation = 256
	// minEncoded is the length of the shortest word that is checked for text in base64. Shorter ones hold no
	// manifest.
	minEncoded = 16
)

// hideDocuments hides the annotations that may hold a manifest or another document, and the logins and queries of
// URLs.
func hideDocuments(v reflect.Value, mark string) {
	for key, value := range v.Interface().(map[string]string) {
		shown := value
		switch {
		case key == v1.LastAppliedConfigAnnotation || isDocument(value):
			shown = mark
		case strings.Contains(value, "://"):
			shown = redactURL(value, mark)
		}
		if shown != value {
			v.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(shown))
		}
	}
}

// quoting are the characters that quote and delimit documents: a text with any of them may be a document.
const quoting = "{}[]\"`\\"

// percentEncoded matches what URLs escape characters with.
var percentEncoded = regexp.MustCompile("%[0-9a-fA-F]{2}")

// isDocument reports whether a text may be or quote a document: an object or a list in YAML, of which JSON is a part,
// also in quotes, in base64 or with percent-encoding. A text isn't a document only if it is short, on one line of
// printable characters, without the characters of documents, and if YAML reads it as a plain scalar that is the text
// itself.
func isDocument(text string) bool {
	text = strings.Trim(text, " \t\r\n")
	switch {
	case text == "":
		return false
	case len(text) > maxAnnotation, !utf8.ValidString(text), strings.ContainsAny(text, quoting), percentEncoded.MatchString(text):
		return true
	case strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }): // line breaks of every kind are among these
		return true
	}
	return !isPlain(text) || encodesText(strings.FieldsFunc(text, notBase64))
}

// isPlain reports whether YAML reads the text as one scalar without quotes, tag or anchor that is the text itself.
func isPlain(text string) bool {
	// A node, unlike a value, isn't expanded: an annotation can't be a YAML bomb.
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		// Characters that start nothing in YAML, as in "@every 5m" or "*". A damaged document counts as a document.
		return !strings.ContainsAny(text, ":|>!&'")
	}
	if len(doc.Content) != 1 {
		return false
	}
	scalar := doc.Content[0]
	return scalar.Kind == yaml.ScalarNode && scalar.Style == 0 && scalar.Anchor == "" && scalar.Value == text
}

// notBase64 reports whether a character can't stand in base64, in either alphabet.
func notBase64(c rune) bool {
	return c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("+/-_", c)
}

// encodesText reports whether one of the words is text in base64. Names and digests decode to bytes that aren't text.
func encodesText(words []string) bool {
	for _, word := range words {
		if len(word) < minEncoded {
			continue
		}
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			// The last characters may be cut off: the rest still decodes to text.
			data, err := encoding.DecodeString(word[:len(word)-len(word)%4])
			if err == nil && isText(data) {
				return true
			}
		}
	}
	return false
}

func isText(data []byte) bool {
	return utf8.Valid(data) && !strings.ContainsFunc(string(data), func(c rune) bool { return !unicode.IsPrint(c) && !unicode.IsSpace(c) })
}
