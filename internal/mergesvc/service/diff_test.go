package service_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/access"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func unixTime(second int64) time.Time { return time.Unix(second, 0) }

// diffable is a node that answers DiffManifests.
var diffable = options{diff: true}

// manifestOf returns a small pod's manifest.
func manifestOf(name, image string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: main, image: %s}]}}", name, image)
}

// diff requests the diff of manifests, given as origin and content; an empty content removes the origin.
func (n *node) diff(inputs ...string) *podconfigv1.DiffManifestsResponse {
	n.t.Helper()
	req := &podconfigv1.DiffManifestsRequest{Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE}
	for i := 0; i < len(inputs); i += 2 {
		req.Manifests = append(req.Manifests, &podconfigv1.ManifestInput{
			Origin: inputs[i], Content: []byte(inputs[i+1]), Remove: inputs[i+1] == "",
		})
	}
	resp, err := n.api.DiffManifests(n.t.Context(), req)
	if err != nil {
		n.t.Fatalf("DiffManifests: %v; want what would change", err)
	}
	return resp
}

// ops formats the ops of a diff, pods by name.
func ops(resp *podconfigv1.DiffManifestsResponse) []string {
	var out []string
	for _, u := range resp.GetUpdates() {
		line := strings.TrimPrefix(u.GetOp().String(), "POD_OPERATION_") + " " + u.GetSource() + ":"
		for _, p := range u.GetPods() {
			line += " " + p.GetRef().GetName()
		}
		out = append(out, line)
	}
	return out
}

// TestDiffManifests: a diff has the ops that a consumer would receive, and applies nothing.
func TestDiffManifests(t *testing.T) {
	n := start(t, diffable)
	n.set("api", "x: other()")
	live := n.watch(reference(nil))
	live.want("ADD api: other")
	live.want("synced")
	n.manifests(manifestOf("a", "one"), manifestOf("b", "one"))
	live.unit()
	was := n.list(&podconfigv1.ListPodsRequest{})
	for _, tc := range []struct {
		name   string
		inputs []string
		want   []string
	}{
		{"nothing", nil, nil},
		{"as it is", []string{"/etc/manifests/0.yaml", manifestOf("a", "one")}, nil},
		{"a new file", []string{"/etc/manifests/new.yaml", manifestOf("c", "one")}, []string{"ADD file: c-node"}},
		{"an edit", []string{"/etc/manifests/0.yaml", manifestOf("a", "two")}, []string{"REMOVE file: a-node", "ADD file: a-node"}},
		{"a removal", []string{"/etc/manifests/1.yaml", ""}, []string{"REMOVE file: b-node"}},
		{"a removal of nothing", []string{"/etc/manifests/none.yaml", ""}, nil},
		{"a broken file keeps its pods", []string{"/etc/manifests/0.yaml", "{"}, nil},
		{
			"a pod moves", []string{"/etc/manifests/0.yaml", manifestOf("b", "one"), "/etc/manifests/1.yaml", manifestOf("a", "one")},
			[]string{"REMOVE file: a-node b-node", "ADD file: b-node a-node"},
		},
	} {
		resp := n.diff(tc.inputs...)
		if diff := cmp.Diff(tc.want, ops(resp)); diff != "" || resp.GetRevision() != was.GetRevision() {
			t.Errorf("%s: at revision %d, ops (-want +got):\n%s", tc.name, resp.GetRevision(), diff)
		}
	}
	if now := n.list(&podconfigv1.ListPodsRequest{}); !proto.Equal(was, now) {
		t.Errorf("asking has changed the pods: %v; want %v", now, was)
	}
	// Applying the manifests has the previewed effect.
	n.manifests(manifestOf("a", "one"))
	if u := live.unit(); u.messages[0].GetUpdate().GetPods()[0].GetRef().GetName() != "b-node" || len(u.messages) != 1 {
		t.Errorf("the next unit is %s; want the REMOVE of b-node only", u)
	}
}

// TestDiffManifestsFindings: the findings are those of the given manifests only, conflicts included.
func TestDiffManifestsFindings(t *testing.T) {
	n := start(t, diffable)
	n.manifests(manifestOf("a", "one"), manifestOf("b", "one"))
	n.set("api", "")
	for _, tc := range []struct {
		name, origin, content string
		severity              podconfigv1.FindingSeverity
		want                  string
	}{
		{"a conflict", "/etc/manifests/2.yaml", manifestOf("a", "two"), podconfigv1.FindingSeverity_FINDING_SEVERITY_CONFLICT, "has precedence"},
		{"an error", "/etc/manifests/0.yaml", "{", podconfigv1.FindingSeverity_FINDING_SEVERITY_ERROR, ""},
		{
			"a warning", "/etc/manifests/3.yaml", strings.Replace(manifestOf("c", "one"), "spec: {", "spec: {odd: 1, ", 1),
			podconfigv1.FindingSeverity_FINDING_SEVERITY_WARNING, "",
		},
	} {
		resp := n.diff(tc.origin, tc.content)
		if len(resp.GetFindings()) != 1 {
			t.Errorf("%s: findings %v; want one", tc.name, resp.GetFindings())
			continue
		}
		f := resp.GetFindings()[0]
		if f.GetSeverity() != tc.severity || f.GetOrigin() != tc.origin || !strings.Contains(f.GetMessage(), tc.want) {
			t.Errorf("%s: finding %v; want %v of %s, with %q", tc.name, f, tc.severity, tc.origin, tc.want)
		}
		if tc.severity == podconfigv1.FindingSeverity_FINDING_SEVERITY_ERROR && len(f.GetKeptPods()) != 1 {
			t.Errorf("%s: keeps the pods %v; want the one of the file", tc.name, f.GetKeptPods())
		}
	}
	if got, err := n.api.ListSources(t.Context(), &podconfigv1.ListSourcesRequest{}); err != nil || len(got.GetSources()[0].GetFindings()) > 0 {
		t.Errorf("after asking the source has the findings %v, %v; want none", got, err)
	}
}

// TestDiffManifestsRefused: manifests that can't be compared are refused with a reason.
func TestDiffManifestsRefused(t *testing.T) {
	n := start(t, diffable)
	input := func(origin string) *podconfigv1.ManifestInput {
		return &podconfigv1.ManifestInput{Origin: origin, Content: []byte(manifestOf("a", "one"))}
	}
	call := func(n *node, req *podconfigv1.DiffManifestsRequest) error {
		_, err := n.api.DiffManifests(t.Context(), req)
		return err
	}
	wantCode(t, "a source that hasn't been read", call(n, &podconfigv1.DiffManifestsRequest{}), codes.Unavailable)
	n.set("file", "")
	n.set("api", "")
	twice := &podconfigv1.DiffManifestsRequest{Manifests: []*podconfigv1.ManifestInput{input("/a"), input("/a")}}
	removed := input("/a")
	removed.Remove = true
	for what, tc := range map[string]struct {
		req  *podconfigv1.DiffManifestsRequest
		code codes.Code
	}{
		"a source that isn't configured":  {&podconfigv1.DiffManifestsRequest{Source: "file:other"}, codes.NotFound},
		"a source of another kind":        {&podconfigv1.DiffManifestsRequest{Source: "api"}, codes.NotFound},
		"a relative path":                 {&podconfigv1.DiffManifestsRequest{Manifests: []*podconfigv1.ManifestInput{input("a")}}, codes.InvalidArgument},
		"an origin that is named twice":   {twice, codes.InvalidArgument},
		"content of what shall be gone":   {&podconfigv1.DiffManifestsRequest{Manifests: []*podconfigv1.ManifestInput{removed}}, codes.InvalidArgument},
		"a format that isn't known":       {&podconfigv1.DiffManifestsRequest{Format: 99}, codes.InvalidArgument},
		"a source that is there, in full": {&podconfigv1.DiffManifestsRequest{Source: "file"}, codes.OK},
	} {
		wantCode(t, what, call(n, tc.req), tc.code)
	}
	scoped := n.as(access.Caller{Identity: "web", Role: access.Consumer, Sources: []string{"api"}})
	wantCode(t, "a source out of the caller's scope", call(scoped, &podconfigv1.DiffManifestsRequest{}), codes.NotFound)
	here := n.as(access.Caller{Identity: "web", Role: access.Consumer, Nodes: []string{"elsewhere"}})
	req := &podconfigv1.DiffManifestsRequest{Manifests: []*podconfigv1.ManifestInput{input("/etc/manifests/a.yaml")}}
	if resp, err := here.api.DiffManifests(t.Context(), req); err != nil || len(resp.GetUpdates()) > 0 {
		t.Errorf("a caller whose scope is another node receives %v, %v; want no ops", resp, err)
	}
}
