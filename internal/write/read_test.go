package write_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	manifests "github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/write"
)

// manifest returns a small pod's manifest.
func manifest(name, image string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: main, image: %q}]}}\n", name, image)
}

func read(files ...write.File) ([]write.Draft, error) {
	return write.Read(files, "alice", "one", write.Options{Node: "n1", OwnMetadata: true})
}

// TestRead: each document keeps its bytes and its place, and its pod has the caller and the set.
func TestRead(t *testing.T) {
	text := "# a comment\n\n" + manifest("a", "1") + "---\n" + manifest("b", "1") + "---\n# nothing\n---\n" +
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\nstringData: {a: |+\n  b\n\n}\n"
	text = strings.Replace(text, "stringData: {a: |+\n  b\n\n}\n", "stringData:\n  a: |+\n    b\n\n", 1)
	got, err := read(write.File{Name: "f.yaml", Content: []byte(text)}, write.File{Name: "g.json", Content: []byte(manifest("c", "1"))})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, d := range got {
		lines = append(lines, fmt.Sprintf("%s %s %s document %d", d.Place, d.Key, d.Origin.Name, d.Place.Document))
	}
	want := []string{
		"f.yaml:3 pod default/a applied/one/default/a document 1", "f.yaml:5 pod default/b applied/one/default/b document 2",
		"f.yaml:9 secret shop/s applied/one/Secret/shop/s document 3", "g.json:1 pod default/c applied/one/default/c document 1",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("documents (-want +got):\n%s", diff)
	}
	if text := string(got[2].Text); !strings.HasSuffix(text, "|+\n    b\n\n") || string(got[3].Text) != manifest("c", "1") {
		t.Errorf("the bytes are %q", text)
	}
	p := got[0].Pod()
	if p.Name != "a-n1" || p.Annotations[manifests.CallerAnnotation] != "alice" || p.Annotations[manifests.SetAnnotation] != "one" {
		t.Errorf("the pod is %s with the annotations %v", p.Name, p.Annotations)
	}
	if spec, err := manifests.SpecDigest(p.Pod); err != nil || spec != p.SpecDigest {
		t.Errorf("its digest is %s; want that of the pod with its annotations, %s, %v", p.SpecDigest, spec, err)
	}
	again := &write.Document{Key: got[1].Key, Set: "one", Caller: "alice", Text: got[1].Text}
	if err := again.Parse(write.Options{Node: "n1"}); err != nil || again.UID() != got[1].UID() {
		t.Errorf("read from the store, the pod has the UID %s, %v; want %s", again.UID(), err, got[1].UID())
	}
}

// TestReadInvalid: a request with one document that can't be used has none. The error has each problem at its line.
func TestReadInvalid(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"no YAML":               {"{", "f:1: "},
		"another kind":          {manifest("a", "1") + "---\n{apiVersion: v1, kind: Service, metadata: {name: s}}\n", "f:3: kind: kind Service (v1) can't run on a node"},
		"an empty file":         {"# nothing\n", "f:1: it has no document"},
		"no name":               {"{apiVersion: v1, kind: Pod, metadata: {}, spec: {containers: [{name: a, image: a}]}}", "f:1: metadata.name"},
		"a name with a path":    {manifest("../../etc/passwd", "1"), "f:1: metadata.name"},
		"a namespace as a path": {strings.Replace(manifest("a", "1"), "{name: a}", "{name: a, namespace: ../x}", 1), "f:1: metadata.namespace"},
		"the same name twice":   {manifest("a", "1") + "---\n" + manifest("a", "2"), "f:3: pod default/a is at f:1 already"},
		"a list":                {"{apiVersion: v1, kind: PodList, items: []}", "f:1: kind: kind PodList (v1) isn't read from a file"},
		"a UID":                 {strings.Replace(manifest("a", "1"), "{name: a}", "{name: a, uid: u}", 1), "f:1: metadata.uid: is the node's to set"},
		"a mirror annotation": {
			strings.Replace(manifest("a", "1"), "{name: a}", `{name: a, annotations: {kubernetes.io/config.mirror: x}}`, 1),
			"f:1: metadata.annotations[kubernetes.io/config.mirror]: is the node's to set",
		},
		"a config annotation": {
			strings.Replace(manifest("a", "1"), "{name: a}", `{name: a, annotations: {kubernetes.io/config.other: x}}`, 1),
			"f:1: metadata.annotations[kubernetes.io/config.other]: is the node's to set",
		},
		"another caller's annotation": {
			strings.Replace(manifest("a", "1"), "{name: a}", `{name: a, annotations: {podstream.io/applied-by: bob}}`, 1),
			"f:1: metadata.annotations[podstream.io/applied-by]: is the node's to set",
		},
	} {
		got, err := read(write.File{Name: "f", Content: []byte(tc.text)})
		if invalid := (*write.InvalidError)(nil); !errors.As(err, &invalid) || !strings.HasPrefix(invalid.Problems[0], tc.want) || got != nil {
			t.Errorf("%s: %v, %v; want %q", name, got, err, tc.want)
		}
	}
	// The control: without what is wrong, it is read.
	if got, err := read(write.File{Name: "f", Content: []byte(manifest("a", "1"))}); err != nil || len(got) != 1 {
		t.Errorf("a good document: %v, %v", got, err)
	}
}

// TestReadBounds: the problems of a request are bounded in number and bytes, and so are its documents.
func TestReadBounds(t *testing.T) {
	var bad, long strings.Builder
	for i := range 100 {
		fmt.Fprintf(&bad, "---\n{apiVersion: v1, kind: Odd%d}\n", i)
		fmt.Fprintf(&long, "---\n"+manifest("a", "1")[:20]+"%s\n", strings.Repeat("y", 3000))
	}
	for name, text := range map[string]string{"many problems": bad.String(), "long problems": long.String()} {
		_, err := read(write.File{Name: strings.Repeat("n", 1024), Content: []byte(text)})
		invalid := (*write.InvalidError)(nil)
		if !errors.As(err, &invalid) || len(err.Error()) > 16<<10 || invalid.Problems[len(invalid.Problems)-1] != "and more problems" {
			t.Errorf("%s: %d bytes, %v; want a few", name, len(fmt.Sprint(err)), err)
		}
	}
	limit := (*write.LimitError)(nil)
	good := strings.Repeat("---\n"+manifest("a", "1"), 2)
	if _, err := read(write.File{Content: []byte(good)}); errors.As(err, &limit) {
		t.Errorf("two documents: %v", err)
	}
	var all strings.Builder
	for i := range write.MaxDocuments + 1 {
		fmt.Fprintf(&all, "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c%d}}\n", i)
	}
	if _, err := read(write.File{Content: []byte(all.String())}); !errors.As(err, &limit) {
		t.Errorf("%d documents: %v; want a LimitError", write.MaxDocuments+1, err)
	}
}
