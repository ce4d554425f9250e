package service_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// sources returns the listed sources by name.
func (n *node) sources() map[string]*podconfigv1.Source {
	n.t.Helper()
	resp, err := n.api.ListSources(n.t.Context(), &podconfigv1.ListSourcesRequest{})
	if err != nil {
		n.t.Fatalf("ListSources: %v; want the sources", err)
	}
	out := map[string]*podconfigv1.Source{}
	for _, s := range resp.GetSources() {
		out[s.GetName()] = s
	}
	return out
}

// findingLines formats findings, with the kept pods.
func findingLines(findings []*podconfigv1.Finding) []string {
	var out []string
	for _, f := range findings {
		line := f.GetOrigin() + ": " + f.GetMessage()
		for _, p := range f.GetKeptPods() {
			line += ", kept " + p.GetUid()
		}
		out = append(out, line)
	}
	return out
}

const precedence = " already, which has precedence; this one waits until that is gone"

// TestScopeOfConflicts: a conflict with a pod of a source that is out of scope is reported without that source and
// its files.
func TestScopeOfConflicts(t *testing.T) {
	n := start(t, options{})
	n.set("file", "/etc/manifests/private.yaml: web(ns=prod) db(uid=same)")
	n.set("api", "x: web(ns=prod,uid=late)\ny: other(uid=same)")
	for _, tc := range []struct {
		sources []string
		where   string
	}{
		{nil, "by source file in /etc/manifests/private.yaml"},
		{[]string{"api", "file"}, "by source file in /etc/manifests/private.yaml"},
		{[]string{"api"}, "elsewhere"},
	} {
		want := []string{
			"x: pod prod/web is defined " + tc.where + precedence, "y: the uid of pod default/other is defined " + tc.where + precedence,
		}
		if diff := cmp.Diff(want, findingLines(n.as(scoped(nil, tc.sources)).sources()["api"].GetFindings())); diff != "" {
			t.Errorf("findings to one who sees sources %v (-want +got):\n%s", tc.sources, diff)
		}
	}
}

// unsaid replaces findings about a manifest that also has pods out of scope.
const unsaid = "the manifest can't be used as it is; why isn't shown, as it may be about a pod out of the caller's scope"

// TestScopeOfSourceDetails: for pods on nodes that are out of scope, a source shows neither their number, nor
// which are kept or wait, nor findings.
func TestScopeOfSourceDetails(t *testing.T) {
	n := start(t, options{})
	n.set("file", "f: e(node=n1) g(node=n2)")
	n.set("api", "x: a(node=n1) b(node=n2) c(node=n2)")
	n.set("api", "x: [held] [error: bad]\nz: e(uid=e2,node=n2) g(uid=g2,node=n1)")
	for _, tc := range []struct {
		nodes    []string
		file     int32
		api      int32
		findings []string
	}{
		{nil, 2, 3, []string{
			"x: bad, kept a, kept b, kept c",
			"z: pod default/e is defined by source file in f" + precedence, "z: pod default/g is defined by source file in f" + precedence,
		}},
		{[]string{"n1"}, 1, 1, []string{"x: " + unsaid + ", kept a", "z: pod default/g is defined elsewhere" + precedence}},
		{[]string{"n2"}, 1, 2, []string{"x: " + unsaid + ", kept b, kept c", "z: pod default/e is defined elsewhere" + precedence}},
		{[]string{"n1", "n2"}, 2, 3, []string{
			"x: bad, kept a, kept b, kept c", "z: pod default/e is defined by source file in f" + precedence,
			"z: pod default/g is defined by source file in f" + precedence,
		}},
		{[]string{"n3"}, 0, 0, nil},
	} {
		got := n.as(scoped(tc.nodes, nil)).sources()
		if file, api := got["file"].GetPodCount(), got["api"].GetPodCount(); file != tc.file || api != tc.api {
			t.Errorf("nodes %v have %d and %d pods; want %d and %d", tc.nodes, file, api, tc.file, tc.api)
		}
		if diff := cmp.Diff(tc.findings, findingLines(got["api"].GetFindings())); diff != "" {
			t.Errorf("findings to one who sees nodes %v (-want +got):\n%s", tc.nodes, diff)
		}
	}
}

// TestScopeOfDiff: a diff doesn't show a caller which pod out of its scope has a name either.
func TestScopeOfDiff(t *testing.T) {
	apiFirst := diffable
	apiFirst.hub = func(c *mergesvc.Config) { c.Sources = []merge.Source{{Name: "api"}, {Name: "file"}} }
	n := start(t, apiFirst)
	n.set("api", "private/object: a-node()")
	n.set("file", "")
	resp := n.as(scoped(nil, []string{"file"})).diff("/etc/manifests/a.yaml", manifestOf("a", "one"))
	want := []string{"/etc/manifests/a.yaml: pod default/a-node is defined elsewhere" + precedence}
	if diff := cmp.Diff(want, findingLines(resp.GetFindings())); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// TestDiffManifestsReadiness: an op has the readiness of its own source, whichever source the request names.
func TestDiffManifestsReadiness(t *testing.T) {
	n := start(t, diffable)
	n.manifests(manifestOf("a", "one"))
	n.set("api", "x: a-node(uid=waits)\ny: [held]")
	resp := n.diff("/etc/manifests/0.yaml", "")
	if diff := cmp.Diff([]string{"REMOVE file: a-node", "ADD api: a-node"}, ops(resp)); diff != "" {
		t.Fatalf("ops (-want +got):\n%s", diff)
	}
	if file, api := resp.GetUpdates()[0].GetSourceReady(), resp.GetUpdates()[1].GetSourceReady(); !file || api {
		t.Errorf("the file's op says ready=%v, that of api, a file of which was never good, %v; want true and false", file, api)
	}
	n.set("api", "x: a-node(uid=waits)")
	if resp := n.diff("/etc/manifests/0.yaml", ""); !resp.GetUpdates()[1].GetSourceReady() {
		t.Error("api's op isn't ready; want it ready")
	}
}

// TestSourcesThatArentText: bytes that a message can't contain don't keep a source from being listed.
func TestSourcesThatArentText(t *testing.T) {
	n := start(t, options{})
	n.set("api", "x: a()")
	origin := &manifest.Origin{Name: "/etc/\xff.yaml", Held: true, Findings: []manifest.Finding{
		{Severity: manifest.Error, Field: "spec.\xfe", Message: "bad \xfd"},
	}}
	n.hub.Apply(manifest.Set{Source: "file", Origins: []*manifest.Origin{origin}})
	n.hub.Apply(manifest.Set{Source: "file", Err: errors.New("no \xff\xfe here")})
	file := n.sources()["file"]
	if file.GetLastError() != "no \ufffd here" {
		t.Errorf("the error is %q", file.GetLastError())
	}
	if f := file.GetFindings(); len(f) != 1 || f[0].GetOrigin() != "/etc/\ufffd.yaml" || f[0].GetField() != "spec.\ufffd" || f[0].GetMessage() != "bad \ufffd" {
		t.Errorf("the findings are %v", f)
	}
}

// TestInspectorFindingsHelp: an inspector receives the problem and its place without quotes. A consumer
// receives everything.
func TestInspectorFindingsHelp(t *testing.T) {
	n := start(t, options{})
	text := strings.Replace(manifestOf("web", "nginx"), "image: nginx", "image: nginx, env: [{name: A=hunter2}], hunter2: x", 1)
	n.hub.Apply(manifest.Set{Source: "file", Origins: []*manifest.Origin{parse("/etc/manifests/web.yaml", []byte(text))}})
	rule := "a valid environment variable name must consist only of printable ASCII characters other than '='"
	for _, tc := range []struct {
		caller access.Caller
		want   []string
	}{
		{scoped(nil, nil), []string{
			"spec.containers[0].hunter2: isn't a field of v1.Pod: it is ignored",
			`spec.containers[0].env[0].name: Invalid value: "A=hunter2": ` + rule,
		}},
		{inspector, []string{
			"spec.containers[0]: one of its members: isn't a field of v1.Pod: it is ignored",
			"spec.containers[0].env[0].name: Invalid value: " + rule,
		}},
	} {
		var got []string
		for _, f := range n.as(tc.caller).sources()["file"].GetFindings() {
			got = append(got, f.GetField()+": "+f.GetMessage())
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("findings to the role %s (-want +got):\n%s", tc.caller.Role, diff)
		}
	}
}
