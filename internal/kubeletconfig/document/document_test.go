package document

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	docs, err := Parse("/etc/f", []byte("\ufeff# first\napiVersion: a/v1\nkind: A\nlist:\n- x: 1\n- y:\n    z: 2\n--- # empty\n"+
		"--- {apiVersion: b/v1, kind: B}\n...\n---\napiVersion: c/v1\nkind: C\nbase: &b {deep: 1}\nuse: *b\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(docs) != 3 || docs[0].Kind != "A" || docs[1].APIVersion != "b/v1" || docs[2].Kind != "C" {
		t.Fatalf("the documents are %v; want A, B and C", docs)
	}
	for _, tc := range []struct {
		doc   int
		field Field
		want  int
	}{
		{0, nil, 2}, {0, Field{"kind"}, 3}, {0, Field{"list", Index(0), "x"}, 5}, {0, Field{"list", Index(1), "y", "z"}, 7},
		{0, Field{"list", Index(1), "missing"}, 6}, {0, Field{"list", Index(9)}, 4}, {1, Field{"kind"}, 9}, {2, Field{"use", "deep"}, 14},
	} {
		if got := docs[tc.doc].Line(tc.field); got != tc.want {
			t.Errorf("%s of %s stands in line %d; want %d", tc.field, docs[tc.doc].Kind, got, tc.want)
		}
	}
	if got := docs[0].Resolve("../x"); got != "/x" {
		t.Errorf("a relative path is resolved to %s; want /x", got)
	}
	if got := (Field{"a", Index(0), "b", Index(12)}).String(); got != "a[0].b[12]" {
		t.Errorf("the field is written %s", got)
	}
}

// TestParseMistakes: each is found in its line.
func TestParseMistakes(t *testing.T) {
	const head = "apiVersion: a\nkind: b\n"
	for text, want := range map[string]string{
		head + "a: [}\n":                         "/etc/f:3: this isn't valid YAML: did not find expected node content",
		head + "a: [\n":                          "/etc/f:3: this isn't valid YAML: did not find expected node content",
		head + "a: {b\nc: d\n":                   "/etc/f:3: this isn't valid YAML: ",
		head + "a: b: c\n":                       "/etc/f:3: this isn't valid YAML: mapping values are not allowed in this context",
		head + "  a: b\n":                        "/etc/f:3: this isn't valid YAML: mapping values are not allowed in this context",
		head + "a: \tb\n\tc: d\n":                "/etc/f:4: this isn't valid YAML: found a tab character",
		"---\n" + head + "---\n" + head + "x: '": "/etc/f:7: this isn't valid YAML: found unexpected end of stream",
		head + "---\nkind: b\n":                  "/etc/f:4: apiVersion is missing",
		"apiVersion: 1\nkind: b\n":               "/etc/f:1: apiVersion is missing",
		"text":                                   "/etc/f:1: want a mapping",
		head + "a: &a [*a]\n":                    "/etc/f",
		strings.Repeat("x", MaxSize+1):           "/etc/f: it has 1048577 bytes; at most 1048576 are read",
		strings.Repeat("---\n", maxDocuments+1):  "/etc/f: it has more than 64 documents",
	} {
		if _, err := Parse("/etc/f", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.80q gives %v; want %s", text, err, want)
		}
	}
}
