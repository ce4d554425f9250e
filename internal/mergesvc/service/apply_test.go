package service_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/disktest"
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

// TestApplyRefused: a request that can't be carried out changes nothing, and has a code and a message that say why.
func TestApplyRefused(t *testing.T) {
	w := startWritable(t, "# one\n"+manifestOf("file", "v1"), manifestOf("other", "v1")+"\n---\n\n"+manifestOf("second", "v1"))
	w.set("api", "x: cluster()")
	have := mustApply(w.node, manifestOf("have", "v1")).GetResults()[0].GetDigest()
	two := manifestOf("new", "v1") + "\n---\n"
	for _, tc := range []struct {
		name string
		text string
		with func(*podconfigv1.ApplyManifestsRequest)
		code codes.Code
		want string
	}{
		{"an invalid document", two + "{apiVersion: v1, kind: Pod}", nil, codes.InvalidArgument, "f.yaml:3: "},
		{"a pod of a file", two + manifestOf("file", "v2"), nil, codes.AlreadyExists, "f.yaml:3: pod default/file is taken by the pod of /etc/manifests/0.yaml:2 (source file)"},
		{
			"a pod of a file's second document", two + manifestOf("second", "v2"), nil, codes.AlreadyExists,
			"is taken by the pod of /etc/manifests/1.yaml:4 (source file, document 2)",
		},
		{"a UID of another source", two + strings.Replace(manifestOf("u", "v1"), "{name: u}", "{name: u, uid: cluster}", 1), nil, codes.AlreadyExists, "the uid of pod default/u is taken"},
		{
			"one UID twice", strings.Replace(manifestOf("u", "v1"), "{name: u}", "{name: u, uid: same}", 1) + "\n---\n" +
				strings.Replace(manifestOf("v", "v1"), "{name: v}", "{name: v, uid: same}", 1), nil, codes.AlreadyExists, "has the uid of pod default/u",
		},
		{"another version", two + manifestOf("have", "v2"), expecting("have", "sha256:0"), codes.Aborted, "pod default/have is another version by now, with digest " + have},
		{"one that must not exist", two + manifestOf("have", "v2"), expecting("have", ""), codes.Aborted, "pod default/have is another version by now"},
		{"one that doesn't exist any more", two + manifestOf("gone", "v2"), expecting("gone", have), codes.Aborted, "pod default/gone was removed since"},
		{"an expectation without a document", two, expecting("have", have), codes.InvalidArgument, "the request doesn't change pod default/have"},
		{"an expectation of a path", two, expecting("../../x", have), codes.InvalidArgument, "isn't the name of a document"},
		{"an invalid set", two, set("a/../b"), codes.InvalidArgument, `set: "a/../b" isn't the name of a set`},
		{"a long set", two, set(strings.Repeat("s", 10_000)), codes.InvalidArgument, "isn't the name of a set"},
		{"prune of everything", "", func(r *podconfigv1.ApplyManifestsRequest) { r.Files, r.Prune = nil, true }, codes.FailedPrecondition, "--allow-empty"},
		{"nothing", "", func(r *podconfigv1.ApplyManifestsRequest) { r.Files = nil }, codes.InvalidArgument, "files: there is none"},
		{"no document", "# nothing", nil, codes.InvalidArgument, "f.yaml:1: it has no document"},
		{"a long name", two, func(r *podconfigv1.ApplyManifestsRequest) { r.Files[0].Name = strings.Repeat("n", 2000) }, codes.InvalidArgument, "files[0].name: has 2000 bytes"},
		{"too many bytes", two + "# " + strings.Repeat("x", 3<<20), nil, codes.InvalidArgument, "files: have more than"},
		{"a format that isn't known", two, func(r *podconfigv1.ApplyManifestsRequest) { r.Format = 99 }, codes.InvalidArgument, "format"},
		{
			"too many files", "", func(r *podconfigv1.ApplyManifestsRequest) {
				r.Files = make([]*podconfigv1.ManifestFile, 10_001)
				for i := range r.Files {
					r.Files[i] = &podconfigv1.ManifestFile{}
				}
			}, codes.InvalidArgument, "files: has 10001 entries",
		},
		{"a gateway", two, func(*podconfigv1.ApplyManifestsRequest) { w.gateway = true }, codes.FailedPrecondition, "apply the manifests on the node itself"},
		{"no source applied", two, func(*podconfigv1.ApplyManifestsRequest) { w.off = true }, codes.FailedPrecondition, "start it with --applied"},
	} {
		check := w.unchanged()
		with := tc.with
		if with == nil {
			with = func(*podconfigv1.ApplyManifestsRequest) {}
		}
		_, err := applyTo(w.node, tc.text, with)
		w.gateway, w.off = false, false
		if status.Code(err) != tc.code || !strings.Contains(status.Convert(err).Message(), tc.want) {
			t.Errorf("%s: %v; want %v with %q", tc.name, err, tc.code, tc.want)
		}
		check(tc.name)
	}
	// The control: without what is wrong, the documents are taken.
	resp := mustApply(w.node, two+manifestOf("have", "v2"), expecting("have", have), expecting("new", ""))
	if got := actions(resp.GetResults()); got != "created new, configured have" {
		t.Errorf("the control has the results %q", got)
	}
}

// TestApplyToFullDisk: a full disk refuses a write, and keeps what there is; with space, the same write is taken.
func TestApplyToFullDisk(t *testing.T) {
	disk := disktest.Small(t)
	w := startWritableIn(t, filepath.Join(disk, "applied"))
	mustApply(w.node, manifestOf("a", "v1"))
	free := disktest.FillUp(t, disk)
	text := manifestOf("a", "v2") + "\n---\n# " + strings.Repeat("x", 100<<10) + "\n" + manifestOf("b", "v1")
	check := w.unchanged()
	_, err := applyTo(w.node, text)
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "the disk doesn't take the change, and nothing has changed") {
		t.Errorf("a write to a full disk: %v; want ResourceExhausted", err)
	}
	check("a write to a full disk")
	free()
	if got := actions(mustApply(w.node, text).GetResults()); got != "configured a, created b" {
		t.Errorf("with space, the write has the results %q", got)
	}
}

// TestApplyToPlantedStore: a link in the place of the store is refused, and not followed.
func TestApplyToPlantedStore(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(t.TempDir(), "victim")
	if err := errors.Join(os.Chmod(dir, 0o700), os.WriteFile(victim, []byte("precious"), 0o600), os.Symlink(victim, filepath.Join(dir, "documents.db"))); err != nil {
		t.Fatal(err)
	}
	w := startWritableIn(t, dir)
	_, err := applyTo(w.node, manifestOf("a", "v1"))
	wantCode(t, "a write", err, codes.Unavailable)
	if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
		t.Errorf("the file that the link leads to has %q, %v", text, err)
	}
	if s := w.sources()["applied"]; !strings.Contains(s.GetLastError(), "isn't podconfigd's own") || s.GetReady() {
		t.Errorf("the source is %v; want that it isn't ready, and why", s)
	}
}

// TestDeleteRefused: a removal that can't be carried out in full removes nothing. The error of a pod of another source says
// where it is from.
func TestDeleteRefused(t *testing.T) {
	w := startWritable(t, "\n\n"+manifestOf("file", "v1"))
	w.set("api", "x: cluster()")
	digest := mustApply(w.node, manifestOf("have", "v1")).GetResults()[0].GetDigest()
	for _, tc := range []struct {
		name string
		req  *podconfigv1.DeleteManifestsRequest
		code codes.Code
		want string
	}{
		{"a pod of a file", podRefs("have", "file"), codes.FailedPrecondition, "pod default/file-node is from /etc/manifests/0.yaml:3 (source file); remove it there"},
		{"by its full name", podRefs("file-node"), codes.FailedPrecondition, "is from /etc/manifests/0.yaml:3"},
		{"a pod of the API server", podRefs("have", "cluster"), codes.FailedPrecondition, "is from the API server (source api): use kubectl delete"},
		{"one that doesn't exist", podRefs("have", "none"), codes.NotFound, "there is no applied pod default/none"},
		{"a path", podRefs("have", "../have"), codes.InvalidArgument, "isn't the name of a document"},
		{"one twice", podRefs("have", "have-node"), codes.InvalidArgument, "pod default/have is named twice"},
		{"nothing", podRefs(), codes.InvalidArgument, "refs: there is none"},
		{"an unknown kind", &podconfigv1.DeleteManifestsRequest{Refs: []*podconfigv1.ManifestRef{{Kind: "Node", Name: "a"}}}, codes.InvalidArgument, `refs[0].kind: "Node"`},
		{"another version", &podconfigv1.DeleteManifestsRequest{
			Refs: podRefs("have").GetRefs(), Expected: []*podconfigv1.ManifestExpectation{{Ref: &podconfigv1.ManifestRef{Name: "have"}, Digest: "sha256:0"}},
		}, codes.Aborted, "pod default/have is another version"},
	} {
		check := w.unchanged()
		_, err := w.api.DeleteManifests(t.Context(), tc.req)
		if status.Code(err) != tc.code || !strings.Contains(status.Convert(err).Message(), tc.want) {
			t.Errorf("%s: %v; want %v with %q", tc.name, err, tc.code, tc.want)
		}
		check(tc.name)
	}
	req := podRefs("have", "none")
	req.IgnoreMissing = true
	req.Expected = []*podconfigv1.ManifestExpectation{{Ref: &podconfigv1.ManifestRef{Name: "have-node"}, Digest: digest}}
	if resp, err := w.api.DeleteManifests(t.Context(), req); err != nil || actions(resp.GetResults()) != "deleted have, absent none" {
		t.Errorf("the control: %v, %v", resp, err)
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
	real := mustApply(w.node, request, prune)
	if len(real.GetUpdates()) > 0 || len(dry.GetResults()) != len(real.GetResults()) {
		t.Fatalf("the write has %d results and %d updates; want %d and none", len(real.GetResults()), len(real.GetUpdates()), len(dry.GetResults()))
	}
	for i, r := range real.GetResults() {
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
