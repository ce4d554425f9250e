package podctl

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// planningPodconfigd answers dry runs, and refuses writes with what it is asked to write.
type planningPodconfigd struct {
	fakePodconfigd
	result *podconfigv1.ManifestResult
	// refuses is the error of dry runs. Nil: none.
	refuses error
	applies []*podconfigv1.ApplyManifestsRequest
	deletes []*podconfigv1.DeleteManifestsRequest
}

func (p *planningPodconfigd) ApplyManifests(_ context.Context, req *podconfigv1.ApplyManifestsRequest) (*podconfigv1.ApplyManifestsResponse, error) {
	if !req.GetDryRun() {
		p.applies = append(p.applies, req)
		return nil, status.Error(codes.Aborted, "it is another version by now")
	}
	return &podconfigv1.ApplyManifestsResponse{Results: []*podconfigv1.ManifestResult{p.result}, Revision: 7}, p.refuses
}

func (p *planningPodconfigd) DeleteManifests(_ context.Context, req *podconfigv1.DeleteManifestsRequest) (*podconfigv1.DeleteManifestsResponse, error) {
	if !req.GetDryRun() {
		p.deletes = append(p.deletes, req)
		return nil, status.Error(codes.Aborted, "it is another version by now")
	}
	return &podconfigv1.DeleteManifestsResponse{Results: []*podconfigv1.ManifestResult{p.result}, Revision: 7}, p.refuses
}

// TestWebApplyExpects: the write has the versions that its dry run has found, so that podconfigd refuses it if a document changes
// between the two.
func TestWebApplyExpects(t *testing.T) {
	pod := &podconfigv1.PodRef{Uid: "u1", Namespace: "default", Name: "web-node1"}
	p := &planningPodconfigd{result: &podconfigv1.ManifestResult{
		Action: podconfigv1.ManifestAction_MANIFEST_ACTION_CONFIGURED, Pod: pod, PreviousDigest: "sha256:1", PreviousCaller: "user:ops",
		Ref: &podconfigv1.ManifestRef{Kind: "Pod", Namespace: "default", Name: "web"},
	}}
	w := &writer{node: newNode(t)}
	w.serve("podconfigd", func(s *grpc.Server) { podconfigv1.RegisterPodConfigServiceServer(s, p) })
	a := w.applier()
	want := []*podconfigv1.ManifestExpectation{{Ref: p.result.GetRef(), Digest: "sha256:1"}}
	same := func(got []*podconfigv1.ManifestExpectation) bool {
		return len(got) == 1 && proto.Equal(got[0], want[0])
	}

	c := w.compare(a, "text")
	if got := strings.Join(c.Documents, ", "); got != "pod/web configured (dry run), which user:ops had applied" || c.Diff.GetRevision() != 7 {
		t.Errorf("the comparison is %+v", c)
	}
	_, _, err := a.Apply(t.Context(), []byte("text"), c.Basis)
	if status.Code(err) != codes.Aborted || len(p.applies) != 1 || !same(p.applies[0].GetExpected()) || string(p.applies[0].GetFiles()[0].GetContent()) != "text" {
		t.Errorf("the write is %v, %v; want one with %v", p.applies, err, want)
	}
	_, _, err = a.Delete(t.Context(), pod)
	if status.Code(err) != codes.Aborted || len(p.deletes) != 1 || !same(p.deletes[0].GetExpected()) || !proto.Equal(p.deletes[0].GetRefs()[0], p.result.GetRef()) {
		t.Errorf("the deletion is %v, %v; want one with %v", p.deletes, err, want)
	}

	// What can't be verified is neither written nor removed.
	p.result.PreviousDigest, p.result.Pod = "sha256:2", nil
	for _, what := range []string{"another version", "a caller without the right"} {
		_, _, applyErr := a.Apply(t.Context(), []byte("text"), c.Basis)
		_, _, deleteErr := a.Delete(t.Context(), pod)
		if applyErr == nil || deleteErr == nil || len(p.applies) != 1 || len(p.deletes) != 1 {
			t.Errorf("%s: %v, %v; %d and %d writes", what, applyErr, deleteErr, len(p.applies), len(p.deletes))
		}
		p.refuses = status.Error(codes.PermissionDenied, "manifest:x: it may not write pods: that takes the role deployer")
	}
	if _, err := a.Compare(t.Context(), []byte("text")); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "the role deployer") {
		t.Errorf("a caller without the right compares: %v", err)
	}
}

// TestFindingsOf: only problems at places of the manifest are findings, and their number is bounded.
func TestFindingsOf(t *testing.T) {
	content := []byte("\n# one\nkind: Pod\n---\nkind: Pod\n")
	of := func(code codes.Code, message string) []*podconfigv1.Finding {
		return findingsOf(content, (&connection{}).explainWrite(status.Error(code, message), &podconfigv1.ManifestFile{Name: webManifest}))
	}
	for _, message := range []string{"files: there is none", "other:3: spec: x", "manifest:x: spec: x", "manifest:99999999: spec", "manifest:3", ""} {
		if got := of(codes.InvalidArgument, message); got != nil {
			t.Errorf("%q has the findings %v", message, got)
		}
	}
	if got := of(codes.Aborted, "manifest:3: x"); got != nil {
		t.Errorf("ABORTED has the findings %v", got)
	}
	// A refusal of the caller, whose name may be "manifest", has no place.
	for _, message := range []string{"manifest: it may not write pods", "uid:1: it may not write pods", "no role for manifest:3: none"} {
		if got := of(codes.PermissionDenied, message); got != nil {
			t.Errorf("%q has the findings %v", message, got)
		}
	}
	denied := of(codes.PermissionDenied, "manifest:3: metadata.namespace: pod b/a: the namespaces of cert:x are a")
	if len(denied) != 1 || denied[0].GetDocument() != 1 || denied[0].GetField() != "metadata.namespace" || denied[0].GetMessage() != "pod b/a: the namespaces of cert:x are a" {
		t.Errorf("a refused document has the findings %v", denied)
	}
	got := of(codes.InvalidArgument, "manifest:3: spec.volumes[a b].x: wrong: y\nmanifest:5: pod a: taken\nmanifest:4: spec: x\nand more problems")
	want := []*podconfigv1.Finding{
		{Document: 1, Field: "spec.volumes[a b].x", Message: "wrong: y"}, {Document: 2, Message: "pod a: taken"}, {Message: "spec: x"}, {Message: "and more problems"},
	}
	if len(got) != len(want) {
		t.Fatalf("the findings are %v", got)
	}
	for i, f := range got {
		want[i].Severity, want[i].Origin = podconfigv1.FindingSeverity_FINDING_SEVERITY_ERROR, "manifest"
		if !proto.Equal(f, want[i]) {
			t.Errorf("finding %d is %v; want %v", i, f, want[i])
		}
	}
	if got := of(codes.AlreadyExists, strings.Repeat("manifest:3: x\n", 2000)); len(got) != maxProblems {
		t.Errorf("there are %d findings; want %d", len(got), maxProblems)
	}
}
