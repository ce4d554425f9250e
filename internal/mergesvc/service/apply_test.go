package service_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podstream/podstream/internal/write"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestApplyManifests: all documents of a request are one revision, which the response names. A repeated request changes
// nothing. Prune and removals are one revision too.
func TestApplyManifests(t *testing.T) {
	w := startWritable(t)
	live := w.watch(reference(nil))
	live.want("synced")
	conf := "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: conf}}\n"
	three := manifestOf("a", "v1") + "\n---\n" + manifestOf("b", "v1") + "\n---\n" + manifestOf("c", "v1") + "\n" + conf
	for _, tc := range []struct {
		name    string
		write   func() (results []*podconfigv1.ManifestResult, instance string, revision uint64, err error)
		results string
		// ops are the ops of the revision; empty: there is none.
		ops string
	}{
		{"three pods", applying(w, three), "created a, created b, created c, created conf", "ADD applied: a-node b-node c-node"},
		{"the same again", applying(w, three), "unchanged a, unchanged b, unchanged c, unchanged conf", ""},
		{
			"one changed", applying(w, strings.Replace(three, `image: v1`, `image: v2`, 1)), "configured a, unchanged b, unchanged c, unchanged conf",
			"REMOVE applied: a-node\nADD applied: a-node",
		},
		{"a ConfigMap alone", applying(w, conf+"data: {a: b}\n", func(r *podconfigv1.ApplyManifestsRequest) {
			r.Files[0].Content = []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: conf}, data: {a: b}}\n")
		}), "configured conf", ""},
		{
			"prune", applying(w, manifestOf("b", "v1"), prune), "configured b, pruned conf, pruned a, pruned c", "REMOVE applied: a-node c-node",
		},
		{"another set", applying(w, manifestOf("b", "v1"), set("two")), "configured b", "UPDATE applied: b-node"},
		{"prune of the set that it left", applying(w, "", prune, func(r *podconfigv1.ApplyManifestsRequest) { r.Files = nil }), "", ""},
		{"a removal", deleting(w, "b"), "deleted b", "REMOVE applied: b-node"},
		{"a pod by the name that the stream has", applying(w, manifestOf("d", "v1")), "created d", "ADD applied: d-node"},
		{"its removal", deleting(w, "d-node"), "deleted d", "REMOVE applied: d-node"},
	} {
		before := w.hub.History().Number()
		results, instance, revision, err := tc.write()
		if err != nil || actions(results) != tc.results {
			t.Fatalf("%s: %q, %v; want %q", tc.name, actions(results), err, tc.results)
		}
		if tc.ops == "" {
			if now := w.hub.History().Number(); now != before || revision != before {
				t.Errorf("%s: the response has revision %d, and the last one is %d after %d; want no revision", tc.name, revision, now, before)
			}
			continue
		}
		u := live.unit()
		if diff := cmp.Diff(tc.ops, byName(u)); diff != "" {
			t.Errorf("%s: the revision (-want +got):\n%s", tc.name, diff)
		}
		if got := u.cursor; got.GetRevision() != revision || got.GetInstanceId() != instance || revision != before+1 {
			t.Errorf("%s: it came at %v; want one revision, and that of the response, %d of %s", tc.name, got, revision, instance)
		}
	}
}

// byName returns the ops of a unit, with pods by name.
func byName(u unit) string {
	var out []string
	for _, m := range u.messages {
		line := strings.TrimPrefix(m.GetUpdate().GetOp().String(), "POD_OPERATION_") + " " + m.GetUpdate().GetSource() + ":"
		for _, p := range m.GetUpdate().GetPods() {
			line += " " + p.GetRef().GetName()
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

type writing = func() ([]*podconfigv1.ManifestResult, string, uint64, error)

func applying(w *writable, text string, change ...func(*podconfigv1.ApplyManifestsRequest)) writing {
	return func() ([]*podconfigv1.ManifestResult, string, uint64, error) {
		resp, err := applyTo(w.node, text, change...)
		return resp.GetResults(), resp.GetInstanceId(), resp.GetRevision(), err
	}
}

func deleting(w *writable, names ...string) writing {
	return func() ([]*podconfigv1.ManifestResult, string, uint64, error) {
		resp, err := w.api.DeleteManifests(w.t.Context(), podRefs(names...))
		return resp.GetResults(), resp.GetInstanceId(), resp.GetRevision(), err
	}
}

// TestPreciseRevision: the response's revision is that of the change, not one of another source that came meanwhile.
func TestPreciseRevision(t *testing.T) {
	w := startWritable(t)
	first := mustApply(w.node, manifestOf("a", "v1"))
	w.manifests(manifestOf("other", "v1"))
	second, err := w.api.DeleteManifests(t.Context(), podRefs("a"))
	if err != nil || second.GetRevision() != first.GetRevision()+2 {
		t.Errorf("the removal is of revision %d, %v; want %d", second.GetRevision(), err, first.GetRevision()+2)
	}
}

// TestDryRun: a dry run has the results and the ops of the write, and changes nothing.
func TestDryRun(t *testing.T) {
	w := startWritable(t)
	mustApply(w.node, manifestOf("a", "v1")+"\n---\n"+manifestOf("b", "v1"))
	check := w.unchanged()
	request := manifestOf("a", "v2") + "\n---\n" + manifestOf("c", "v1")
	dry := mustApply(w.node, request, prune, dryRun)
	check("the dry run")
	ops := []string{}
	for _, u := range dry.GetUpdates() {
		for _, p := range u.GetPods() {
			ops = append(ops, strings.TrimPrefix(u.GetOp().String(), "POD_OPERATION_")+" "+p.GetRef().GetName())
		}
	}
	if diff := cmp.Diff([]string{"REMOVE a-node", "REMOVE b-node", "ADD a-node", "ADD c-node"}, ops); diff != "" {
		t.Errorf("the ops (-want +got):\n%s", diff)
	}
	done := mustApply(w.node, request, prune)
	if len(done.GetUpdates()) > 0 || len(dry.GetResults()) != len(done.GetResults()) {
		t.Fatalf("the write has %d results and %d updates; want %d and none", len(done.GetResults()), len(done.GetUpdates()), len(dry.GetResults()))
	}
	for i, r := range done.GetResults() {
		if !equal(r, dry.GetResults()[i]) {
			t.Errorf("the dry run has the result %v; the write has %v", dry.GetResults()[i], r)
		}
	}
	removal := podRefs("a")
	removal.DryRun = true
	check = w.unchanged()
	if resp, err := w.api.DeleteManifests(t.Context(), removal); err != nil || len(resp.GetUpdates()) != 1 || actions(resp.GetResults()) != "deleted a" {
		t.Errorf("a dry removal: %v, %v", resp, err)
	}
	check("the dry removal")
}

// TestWarnings: the warnings about a document have its file and number.
func TestWarnings(t *testing.T) {
	w := startWritable(t)
	resp := mustApply(w.node, manifestOf("a", "v1")+"\n---\n"+strings.Replace(manifestOf("b", "v1"), "spec: {", "spec: {odd: 1, ", 1))
	if len(resp.GetFindings()) != 1 || resp.GetFindings()[0].GetOrigin() != "f.yaml" || resp.GetFindings()[0].GetDocument() != 2 {
		t.Errorf("the findings are %v; want one of f.yaml's second document", resp.GetFindings())
	}
}

// TestListManifests: the documents come as they were written, in pages that a client can take.
func TestListManifests(t *testing.T) {
	w := startWritable(t)
	text := "# mine\n" + manifestOf("a", "v1")
	mustApply(w.node, text)
	pad := strings.Repeat("x", 600<<10)
	for i := range 3 {
		mustApply(w.node, fmt.Sprintf("# %s\n%s", pad, manifestOf(fmt.Sprint("large", i), "v1")), set("large"))
	}
	list := func(req *podconfigv1.ListManifestsRequest) *podconfigv1.ListManifestsResponse {
		t.Helper()
		resp, err := w.api.ListManifests(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	one := list(&podconfigv1.ListManifestsRequest{Refs: []*podconfigv1.ManifestRef{{Name: "a"}}}).GetManifests()
	if len(one) != 1 || string(one[0].GetContent()) != text || one[0].GetCaller() != "uid:0" || one[0].GetSet() != "default" ||
		one[0].GetDigest() != write.DigestOf([]byte(text)) || one[0].GetPod().GetName() != "a-node" {
		t.Errorf("a is %v", one)
	}
	if all := list(&podconfigv1.ListManifestsRequest{Set: "large"}).GetManifests(); len(all) != 1 {
		t.Errorf("the first page of the set has %d documents of 600 KiB; want one", len(all))
	}
	var names []string
	req := &podconfigv1.ListManifestsRequest{}
	for {
		resp := list(req)
		for _, m := range resp.GetManifests() {
			names = append(names, m.GetRef().GetName())
		}
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"a", "large0", "large1", "large2"}, names); diff != "" {
		t.Errorf("all pages (-want +got):\n%s", diff)
	}
}

// TestPodOrigin: GetPod returns the place of a pod's manifest, if it is requested.
func TestPodOrigin(t *testing.T) {
	w := startWritable(t, manifestOf("a", "v1")+"\n---\n# two\n"+manifestOf("b", "v1"))
	mustApply(w.node, manifestOf("c", "v1"))
	w.set("api", "ns/x: cluster()")
	for name, want := range map[string]*podconfigv1.PodOrigin{
		"b-node":  {Source: "file", Origin: "/etc/manifests/0.yaml", Document: 2, Line: 4},
		"c-node":  {Source: "applied", Origin: "applied/default/default/c", Document: 1, Line: 1},
		"cluster": {Source: "api", Origin: "ns/x", Document: 1},
	} {
		req := &podconfigv1.GetPodRequest{Ref: &podconfigv1.PodRef{Name: name}}
		without, err := w.api.GetPod(t.Context(), req)
		if err != nil || without.GetOrigin() != nil {
			t.Errorf("%s: %v, %v; want no origin", name, without.GetOrigin(), err)
		}
		req.WithOrigin = true
		check := w.unchanged()
		if got, err := w.api.GetPod(t.Context(), req); err != nil || !equal(got.GetOrigin(), want) {
			t.Errorf("%s is from %v, %v; want %v", name, got.GetOrigin(), err, want)
		}
		check("GetPod")
	}
}
