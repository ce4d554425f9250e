package document

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
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
		head + "a: &a [*a]\n":                    "/etc/f: this isn't valid YAML: an anchor contains itself",
		head + "a: [*TOPSECRET]\n":               "/etc/f: this isn't valid YAML: an alias refers to an anchor that there isn't",
		head + "a: !!int TOPSECRET\n":            "/etc/f: this isn't valid YAML: a value isn't what its tag says",
		head + "a: !!binary TOP-SECRET\n":        "/etc/f: this isn't valid YAML: a value isn't what its tag says",
		head + "? [TOPSECRET]\n: b\n":            "/etc/f: this isn't valid YAML: ",
		"%YAML 1.1\n":                            "",
		strings.Repeat("x", MaxSize+1):           "/etc/f: it has 1048577 bytes; at most 1048576 are read",
		strings.Repeat("---\n", maxDocuments+1):  "/etc/f: it has more than 64 documents",
	} {
		_, err := Parse("/etc/f", []byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.80q gives %v; want %s", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%.80q is quoted: %v", text, err)
		}
	}
}

// TestDirectives: directives before the first marker aren't a document, and line numbers stay the file's.
func TestDirectives(t *testing.T) {
	for _, text := range []string{
		"%YAML 1.1\n---\napiVersion: a\nkind: b\n", "# c\n%YAML 1.2\n%TAG ! tag:x,2000:\n--- # d\napiVersion: a\nkind: b\n...\n%YAML 1.1\n---\n",
	} {
		docs, err := Parse("/etc/f", []byte(text))
		if err != nil || len(docs) != 1 {
			t.Errorf("%q gives %v, %v; want one document", text, docs, err)
		} else if got, want := docs[0].Line(Field{"kind"}), strings.Count(text[:strings.Index(text, "kind")], "\n")+1; got != want {
			t.Errorf("%q: kind stands in line %d; want %d", text, got, want)
		}
	}
}

// TestDecodeMany: the time for findings is linear, and only the first are returned.
func TestDecodeMany(t *testing.T) {
	var text strings.Builder
	text.WriteString("apiVersion: a\nkind: b\n")
	for i := range 60_000 {
		fmt.Fprintf(&text, "k%d: 1\n", i)
	}
	docs, err := Parse("/etc/f", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	found := docs[0].Decode(&struct{ APIVersion, Kind string }{})
	for i := range 60_000 {
		if got := docs[0].Line(Field{fmt.Sprintf("k%d", i)}); got != i+3 {
			t.Fatalf("k%d stands in line %d; want %d", i, got, i+3)
		}
	}
	// By a search for each key it would be a hundred times as long.
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("60,000 findings and lines take %v", took)
	}
	// The two fields of the struct have other names in JSON than the document's.
	if n := len(found.Unknown); n != maxFindings+1 || found.Unknown[maxFindings].Error() != "/etc/f: and 59902 more" {
		t.Errorf("%d findings are told, the last of them %v; want %d and how many more", n, found.Unknown[n-1], maxFindings)
	}
}

// TestHiddenNames: a key that looks like no field's name isn't shown: it may be a header with its value.
func TestHiddenNames(t *testing.T) {
	docs, err := Parse("/etc/f", []byte("apiVersion: a\nkind: b\nh:\n  'Authorization: Bearer TOPSECRET': 1\n  B/TOPSECRET: 2\n"))
	if err != nil {
		t.Fatal(err)
	}
	found := docs[0].Decode(&struct {
		APIVersion string              `json:"apiVersion"`
		Kind       string              `json:"kind"`
		H          map[string][]string `json:"h"`
	}{})
	if got, want := errors.Join(found.Wrong...).Error(), "/etc/f:4: h.…: want a list\n/etc/f:5: h.…: want a list"; got != want {
		t.Errorf("the mistakes are\n%s\nwant\n%s", got, want)
	}
}
