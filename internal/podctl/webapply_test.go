package podctl

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/podctl/web/service"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// applier returns the page's applier for the podconfigd.
func (w *writer) applier() webApplier {
	w.t.Helper()
	tool := newTool(Config{Version: "test"})
	if err := tool.podconfigd.endpoint.Set("unix://" + w.socket("podconfigd")); err != nil {
		w.t.Fatal(err)
	}
	conn, err := tool.podconfigd.connect("test")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	return webApplier{tool, conn}
}

func (w *writer) compare(a webApplier, text string) *service.Comparison {
	w.t.Helper()
	c, err := a.Compare(w.t.Context(), []byte(text))
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// wantAborted checks that a write was refused, and that the pod web still has this image. Empty: there is none.
func (w *writer) wantAborted(what string, err error, image string) {
	w.t.Helper()
	if status.Code(err) != codes.Aborted || !strings.Contains(err.Error(), "nothing was") {
		w.t.Errorf("%s: %v; want ABORTED", what, err)
	}
	if got := w.desired("web"); got != image {
		w.t.Errorf("%s: the pod has the image %q; want %q", what, got, image)
	}
}

// TestWebApply: the page compares a manifest, applies what was compared, and deletes the pod that it shows.
func TestWebApply(t *testing.T) {
	w := newWriter(t)
	a := w.applier()
	text := manifestText("web", "v1") + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\n"
	c := w.compare(a, text)
	if got := strings.Join(c.Documents, ", "); got != "pod/web created (dry run), configmap/conf created (dry run)" || len(c.Diff.GetUpdates()) == 0 || c.Basis == "" {
		t.Errorf("the comparison is %+v", c)
	}
	if got := w.desired("web"); got != "" {
		t.Errorf("after the comparison, the pod has the image %q", got)
	}
	lines, published, err := a.Apply(t.Context(), []byte(text), c.Basis)
	if err != nil || strings.Join(lines, ", ") != "pod/web created, configmap/conf created" || published == 0 || w.desired("web") != "v1" {
		t.Errorf("the first version: %q, %d, %v; the image is %q", lines, published, err, w.desired("web"))
	}

	_, _, err = a.Apply(t.Context(), []byte(manifestText("web", "v2")), c.Basis)
	w.wantAborted("a change compared before there was a pod", err, "v1")
	c = w.compare(a, manifestText("web", "v2"))
	w.want("pod/web configured\n", "apply", "-f", w.file("other.yaml", manifestText("web", "other")))
	_, _, err = a.Apply(t.Context(), []byte(manifestText("web", "v2")), c.Basis)
	w.wantAborted("a change compared with a former version", err, "other")
	_, _, err = a.Apply(t.Context(), []byte(manifestText("web", "v2")), "")
	w.wantAborted("a change that wasn't compared", err, "other")

	c = w.compare(a, manifestText("web", "v2"))
	lines, second, err := a.Apply(t.Context(), []byte(manifestText("web", "v2")), c.Basis)
	if err != nil || strings.Join(lines, ", ") != "pod/web configured" || second <= published || w.desired("web") != "v2" {
		t.Errorf("the second version: %q, %d, %v; the image is %q", lines, second, err, w.desired("web"))
	}

	shown := w.refOf("web")
	w.want("pod/web configured\n", "apply", "-f", w.file("other.yaml", manifestText("web", "other")))
	_, _, err = a.Delete(t.Context(), shown)
	w.wantAborted("the deletion of a pod that was replaced", err, "other")
	lines, third, err := a.Delete(t.Context(), w.refOf("web"))
	if err != nil || strings.Join(lines, ", ") != `pod "web" deleted from default namespace` || third <= second || w.desired("web") != "" {
		t.Errorf("the deletion: %q, %d, %v; the image is %q", lines, third, err, w.desired("web"))
	}
	if _, _, err := a.Delete(t.Context(), shown); status.Code(err) != codes.NotFound {
		t.Errorf("a second deletion: %v; want NOT_FOUND", err)
	}

	// podconfigd refuses to delete an administrator's pod by itself, whatever the page asks for.
	w.file("manifests/web.yaml", manifestText("web", "admin"))
	w.until(func() bool { return w.desired("web") == "admin" })
	_, _, err = a.Delete(t.Context(), w.refOf("web"))
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "manifests/web.yaml") || w.desired("web") != "admin" {
		t.Errorf("the deletion of an administrator's pod: %v; the image is %q", err, w.desired("web"))
	}
}

// refOf returns the pod as the stream has it.
func (w *writer) refOf(name string) *podconfigv1.PodRef {
	w.t.Helper()
	for _, p := range w.listDesired() {
		if p.Name == name+"-node1" {
			return &podconfigv1.PodRef{Uid: string(p.UID), Namespace: p.Namespace, Name: p.Name}
		}
	}
	w.t.Fatalf("there is no pod %s", name)
	return nil
}

// TestWebApplyFindings: mistakes have the document and the field at which the page marks them; they can't be applied.
func TestWebApplyFindings(t *testing.T) {
	w := newWriter(t)
	a := w.applier()
	w.file("manifests/file.yaml", manifestText("file", "v1"))
	w.until(func() bool { return w.desired("file") == "v1" })
	type found struct {
		document       int32
		field, message string
	}
	for name, tc := range map[string]struct {
		text string
		want []found
	}{
		"fields": {
			"# one\n" + manifestText("a", "v1") + "---\n---\n" + strings.Replace(manifestText("../x", "v1"), "image:", "imagePullPolicy: Sometimes, image:", 1),
			[]found{{2, "metadata.name", "../x"}, {2, "spec.containers[0].imagePullPolicy", "Sometimes"}},
		},
		"no YAML":        {"{\n---\n" + manifestText("a", "v1"), []found{{1, "", "line 1: "}}},
		"a taken name":   {manifestText("a", "v1") + "---\n" + manifestText("file", "v2"), []found{{2, "", "is taken by the pod of"}}},
		"one name twice": {manifestText("a", "v1") + "---\n" + manifestText("a", "v2"), []found{{2, "", "pod default/a is at manifest:1 already"}}},
		"nothing":        {"# nothing\n", []found{{0, "", "it has no document"}}},
	} {
		c := w.compare(a, tc.text)
		findings := c.Diff.GetFindings()
		if c.Basis != "" || len(findings) != len(tc.want) {
			t.Errorf("%s: the comparison is %+v; want %d findings", name, c, len(tc.want))
			continue
		}
		for i, f := range findings {
			if want := tc.want[i]; f.GetDocument() != want.document || f.GetField() != want.field || !strings.Contains(f.GetMessage(), want.message) ||
				f.GetSeverity() != podconfigv1.FindingSeverity_FINDING_SEVERITY_ERROR {
				t.Errorf("%s: finding %d is %v; want %v", name, i, f, want)
			}
		}
		if _, _, err := a.Apply(t.Context(), []byte(tc.text), c.Basis); err == nil {
			t.Errorf("%s: it is applied", name)
		}
	}
	if pods := w.listDesired(); len(pods) != 1 || pods[0].Name != "file-node1" {
		t.Errorf("the pods are %v; want the file's only", pods)
	}
	// A refusal that isn't about the manifest is no finding.
	refused := newWriterWithout(t).applier()
	if _, err := refused.Compare(t.Context(), []byte(manifestText("a", "v1"))); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "--applied") {
		t.Errorf("without the source: %v", err)
	}
}

// newWriterWithout returns a node whose podconfigd takes no writes.
func newWriterWithout(t *testing.T) *writer {
	t.Helper()
	w := &writer{node: newNode(t)}
	w.mkdir("manifests")
	w.launch()
	return w
}
