package redact_test

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// annotation returns an annotation as an inspector may see it.
func annotation(text string) string {
	return inspected(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"k": text}}}).Annotations["k"]
}

// TestQuotedManifests: a manifest in an annotation is hidden, however it is written, quoted or encoded.
func TestQuotedManifests(t *testing.T) {
	const (
		jsonSecret = `{"kind":"Secret","data":{"p":"hunter2"}}`
		yamlSecret = "kind: Secret\ndata: {p: hunter2}\n"
	)
	for what, text := range map[string]string{
		"JSON in JSON":            `"{\"kind\":\"Secret\",\"data\":{\"p\":\"hunter2\"}}"`,
		"JSON in YAML":            "'" + jsonSecret + "'",
		"a document's start":      `--- "{\"p\":\"hunter2\"}"`,
		"a quoted object in YAML": `'password: hunter2'`,
		"in double quotes":        `"password: hunter2"`,
		"a block scalar":          "|- hunter2",
		"a folded scalar":         "> hunter2",
		"a literal block":         "|\n  hunter2",
		"a tag":                   "!!map hunter2: x",
		"a tagged scalar":         "!!str hunter2",
		"an anchor":               "&a hunter2",
		"after a word":            "v1 " + jsonSecret,
		"cut off at its start":    `kind":"Secret","p":"hunter2"}`,
		"cut off at its end":      `{"a":"hunter2"`,
		"percent-encoded":         url.QueryEscape(jsonSecret),
		"partly percent-encoded":  "%7b%22a%22:%22hunter2",
		"base64":                  base64.StdEncoding.EncodeToString([]byte(jsonSecret)),
		"base64 for URLs":         base64.RawURLEncoding.EncodeToString([]byte(yamlSecret + "???>>>")),
		"base64 after a word":     "data " + base64.StdEncoding.EncodeToString([]byte(yamlSecret)),
		"base64 that is cut off":  base64.StdEncoding.EncodeToString([]byte(yamlSecret))[:30],
		"a line feed":             "one\nhunter2",
		"a carriage return":       "one\rhunter2",
		"CRLF":                    "one\r\nhunter2",
		"NEL":                     "x\u0085---\u0085a hunter2",
		"a line separator":        "x\u2028hunter2",
		"a paragraph separator":   "x\u2029hunter2",
		"a vertical tab":          "x\vhunter2",
		"NUL":                     "x\x00hunter2",
		"not UTF-8":               "x\xffhunter2",
		"damaged after a colon":   "a: hunter2: b",
		"damaged in a quote":      "'hunter2",
		"damaged in a tag":        "!<hunter2",
		"damaged in an anchor":    "& hunter2",
		"a comment":               "x #hunter2: x",
		"a URL with a login":      "https://user:hunter2@example.com/",
		"a URL with a query":      "https://example.com/?token=hunter2",
		"a list of URLs":          "https://example.com/ https://user:hunter2@example.com/",
		"a list with a token":     "https://example.com/,https://hunter2@example.com/",
		"a list without paths":    "https://example.com,https://hunter2@example.com",
	} {
		if got := annotation(text); strings.Contains(got, "hunter2") || got == text {
			t.Errorf("%s: %q is shown as %q", what, text, got)
		}
	}
	for _, c := range "{}[]\"`\\" {
		if text := "a" + string(c) + "b"; annotation(text) != "(redacted)" {
			t.Errorf("%q is shown; want it hidden, as %q is of a document", text, c)
		}
	}
}

// TestPlainAnnotations: annotations that users and controllers commonly write stay readable.
func TestPlainAnnotations(t *testing.T) {
	for _, text := range []string{
		"one line\r\n", " padded\t", "50%", "100% of 3", "don't", "v1.2.3-rc.1+build", "10.0.0.1/24,fd00::1/64", "key=value;other=value",
		"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "550e8400-e29b-41d4-a716-446655440000",
		"my-namespace/my-deployment-with-a-long-name", "https://example.com/a/b", "a < b && c > d | e", "größer", "~", "@daily", "a@b.example",
	} {
		if got := annotation(text); got != text {
			t.Errorf("%q is shown as %q; want it as it is", text, got)
		}
	}
}
