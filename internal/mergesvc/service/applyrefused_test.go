package service_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/disktest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

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
		{"a gateway", two, func(*podconfigv1.ApplyManifestsRequest) { w.gateway.Store(true) }, codes.FailedPrecondition, "apply the manifests on the node itself"},
		{"no source applied", two, func(*podconfigv1.ApplyManifestsRequest) { w.off.Store(true) }, codes.FailedPrecondition, "start it with --applied"},
	} {
		check := w.unchanged()
		with := tc.with
		if with == nil {
			with = func(*podconfigv1.ApplyManifestsRequest) {}
		}
		_, err := applyTo(w.node, tc.text, with)
		w.gateway.Store(false)
		w.off.Store(false)
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
	w.off.Store(true)
	for name, want := range map[string]string{
		"file": "pod default/file-node is from /etc/manifests/0.yaml:3 (source file); remove it there", "none": "this podconfigd takes no writes",
	} {
		_, err := w.api.DeleteManifests(t.Context(), podRefs(name))
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(status.Convert(err).Message(), want) {
			t.Errorf("%s, without the source applied: %v; want %q", name, err, want)
		}
	}
	w.off.Store(false)
	req := podRefs("have", "none")
	req.IgnoreMissing = true
	req.Expected = []*podconfigv1.ManifestExpectation{{Ref: &podconfigv1.ManifestRef{Name: "have-node"}, Digest: digest}}
	if resp, err := w.api.DeleteManifests(t.Context(), req); err != nil || actions(resp.GetResults()) != "deleted have, absent none" {
		t.Errorf("the control: %v, %v", resp, err)
	}
}
