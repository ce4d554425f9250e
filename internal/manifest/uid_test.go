package manifest

import (
	"strings"
	"testing"
)

// escapes is a string of what JSON can write in several ways: control characters, what HTML or JavaScript treat in
// their own way, and characters of every length.
const escapes = `"\u0000\u0001\u0008\u0009\u000a\u000b\u000c\u000d\u001b\u001f\u007f\u0080\u2028\u2029\ufeff<>&'/\"\\é€\ud83d\ude00\ud800"`

// TestGoldenText: how encoding/json writes a string goes into UIDs and digests. Should a Go version write it in
// another way, this package needs a writer of its own.
func TestGoldenText(t *testing.T) {
	tree, _, err := decodeTree([]byte(`{"text":` + escapes + `}`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := encodeTree(tree)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"text":"\u0000\u0001\b\t\n\u000b\f\r\u001b\u001f` + "\u007f\u0080" + `\u2028\u2029` + "\ufeff" + `<>&'/\"\\é€` + "\U0001f600\ufffd" + `"}`
	if got := strings.TrimSpace(string(text)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestGoldenUID: a UID that changes restarts every static pod of every node. These values must never be changed.
func TestGoldenUID(t *testing.T) {
	const odd = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","creationTimestamp":null,"annotations":` +
		`{"b":"<&>\u2028\u0008\u00e9\ud83d\ude00","a":""}},"spec":{"x":[1.0,0.5,1e3,1e21,9223372036854775808,-0.0,true]}}`
	for _, c := range []struct {
		name, data string
		opts       Options
		want       string
	}{
		{"file", smallPod, Options{Origin: "/etc/podstream/manifests/web.yaml", Node: "node1"}, "2ad9b6eded589bb590c6804263d46244"},
		{"URL", smallPod, Options{Origin: "https://config.example/pods", OriginKind: URLKind, Node: "node1"}, "0d8f887d3d6f9b7bfb053f1798067070"},
		{"escapes", `{"text":` + escapes + `}`, Options{Origin: "/a", Node: "n"}, "bbeae9b59ba2ffbee47b326f4d666c09"},
		{"odd values", odd, Options{Origin: "/a", Node: "n"}, "45df466698da97899a11bf793387fa5d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for d := range split([]byte(c.data)) {
				d.read()
				tree, _, err := decodeTree(d.json)
				if err != nil {
					t.Fatal(err)
				}
				text, err := encodeTree(tree)
				if err != nil {
					t.Fatal(err)
				}
				if got := uid(text, c.opts); string(got) != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
			}
		})
	}
}

// TestUIDOfContent: the content of the document counts, not its formatting.
func TestUIDOfContent(t *testing.T) {
	uidOf := func(t *testing.T, text string) string {
		t.Helper()
		o := Parse([]byte(text), fileOptions)
		if len(o.Pods) != 1 {
			t.Fatalf("got %s", summary(o))
		}
		return string(o.Pods[0].UID)
	}
	first := uidOf(t, smallPod)
	for name, text := range map[string]string{
		"comment": "# hello\n" + smallPod,
		"marker":  "---\n" + smallPod + "---\n",
		"JSON":    `{"kind":"Pod","apiVersion":"v1","spec":{"containers":[{"image":"nginx:1.25","name":"web"}]},"metadata":{"name":"web"}}`,
		"second":  "---\n# empty\n---\n" + smallPod,
	} {
		if got := uidOf(t, text); got != first {
			t.Errorf("%s: another UID", name)
		}
	}
	for name, text := range map[string]string{
		"default written out": smallPod + "  restartPolicy: Always\n",
		"unknown field":       smallPod + "  unknown: 1\n",
		"empty field":         smallPod + "status: {}\n",
	} {
		if got := uidOf(t, text); got == first {
			t.Errorf("%s: the same UID", name)
		}
	}
}
