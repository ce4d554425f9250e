package service_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/access"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestNarrowedRights: a deployer whose rights were narrowed may still remove what it has, and not change it.
func TestNarrowedRights(t *testing.T) {
	w := startWritable(t)
	mustApply(w.as(deployer("alice", func(r *access.Writes) { r.PodSecurity = access.Privileged })), podWith("p", "", "hostNetwork: true"))
	narrowed := w.as(deployer("alice", func(r *access.Writes) { r.Namespaces = []string{"other"} }))
	if _, err := applyTo(narrowed, podWith("p", "", "hostNetwork: true")); status.Code(err) != codes.PermissionDenied {
		t.Errorf("the same pod again: %v; want PermissionDenied", err)
	}
	req := &podconfigv1.DeleteManifestsRequest{Refs: []*podconfigv1.ManifestRef{{Namespace: "shop", Name: "p"}}}
	if _, err := narrowed.api.DeleteManifests(t.Context(), req); err != nil {
		t.Errorf("its removal: %v", err)
	}
}

// TestForeignMetadata: what only an API server sets has no effect: a pod with a deletion time runs, and it has no owners and no
// finalizers.
func TestForeignMetadata(t *testing.T) {
	w := startWritable(t)
	resp := mustApply(w.as(deployer("alice")), podWith("web", ", finalizers: [example.com/keep], generation: 7, resourceVersion: '9', "+
		"deletionTimestamp: '2026-01-01T00:00:00Z', deletionGracePeriodSeconds: 0, "+
		"ownerReferences: [{apiVersion: v1, kind: Node, name: node, uid: u, controller: true}]", ""))
	warned := map[string]bool{}
	for _, f := range resp.GetFindings() {
		warned[f.GetField()] = true
	}
	for _, field := range []string{"finalizers", "generation", "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences"} {
		if !warned["metadata."+field] {
			t.Errorf("no warning about metadata.%s; there are %v", field, resp.GetFindings())
		}
	}
	p := w.hub.History().State().Pods
	if len(p) != 1 {
		t.Fatalf("%d pods are served; want one", len(p))
	}
	for _, served := range p {
		m := served.Object.ObjectMeta
		m.Annotations = nil
		want := metav1.ObjectMeta{Name: "web-node", Namespace: "shop", UID: m.UID}
		if diff := cmp.Diff(want, m); diff != "" {
			t.Errorf("the served metadata (-want +got):\n%s", diff)
		}
	}
}

// TestPruneOfOthers: prune removes nothing of another caller, which has a set of the same name, nor of another set.
func TestPruneOfOthers(t *testing.T) {
	w := startWritable(t)
	alice, bob := w.as(deployer("alice")), w.as(deployer("bob"))
	mustApply(alice, manifestOf("a", "v1"))
	mustApply(alice, manifestOf("a2", "v1"), set("two"))
	mustApply(bob, manifestOf("b", "v1"))
	empty := func(r *podconfigv1.ApplyManifestsRequest) { r.Files = nil }
	for _, tc := range []struct {
		who  *node
		want string
	}{{w.node, ""}, {bob, "pruned b"}, {bob, ""}, {alice, "pruned a"}} {
		if got := actions(mustApply(tc.who, "", empty, prune, allowEmpty).GetResults()); got != tc.want {
			t.Errorf("prune has the results %q; want %q", got, tc.want)
		}
	}
	if got := w.served(); got != "default/a2-node=v1" {
		t.Errorf("left is %q; want a2, of alice's other set", got)
	}
}

// TestDeployerReadsBack: a deployer sees what it has applied, in full, and nothing else: no pod, document, count or finding of
// others. Root sees all.
func TestDeployerReadsBack(t *testing.T) {
	w := startWritable(t, manifestOf("file", "v1"))
	alice, bob := w.as(deployer("alice")), w.as(deployer("bob"))
	mustApply(alice, podWith("a", "", "[env: [{name: A, value: secret}]]"))
	mustApply(bob, manifestOf("b", "v1"))
	// A pod of another source with alice's annotation isn't hers.
	w.manifests(manifestOf("file", "v1"))
	w.set("api", "x: forged(ann.podstream.io/applied-by=alice)\nbad: [held] [error: a secret reason]")
	names := func(n *node) string {
		t.Helper()
		var out []string
		for _, p := range n.list(&podconfigv1.ListPodsRequest{}).GetPods() {
			out = append(out, p.GetRef().GetName())
		}
		return strings.Join(out, " ")
	}
	if got := names(alice); got != "a-node" {
		t.Errorf("alice sees %q; want a-node", got)
	}
	if got := names(w.node); got != "b-node file-node forged a-node" {
		t.Errorf("root sees %q; want all", got)
	}
	get := func(n *node, ref *podconfigv1.PodRef) (*podconfigv1.GetPodResponse, error) {
		return n.api.GetPod(t.Context(), &podconfigv1.GetPodRequest{Ref: ref, WithOrigin: true})
	}
	own, err := get(alice, &podconfigv1.PodRef{Namespace: "shop", Name: "a-node"})
	if err != nil || !strings.Contains(own.String(), "secret") || own.GetOrigin().GetOrigin() != "applied/default/shop/a" {
		t.Errorf("alice's own pod: %v, %v; want it in full", own, err)
	}
	for _, ref := range []*podconfigv1.PodRef{{Name: "b-node"}, {Name: "file-node"}, {Name: "forged"}, {Uid: "forged"}} {
		if got, err := get(alice, ref); status.Code(err) != codes.NotFound {
			t.Errorf("alice gets %v: %v, %v; want NotFound", ref, got, err)
		}
		if _, err := get(w.node, ref); err != nil {
			t.Errorf("root gets %v: %v", ref, err)
		}
	}
	sources := alice.sources()
	if len(sources) != 1 || sources["applied"].GetPodCount() != 1 || len(sources["applied"].GetFindings()) > 0 {
		t.Errorf("alice sees the sources %v; want applied, with one pod", sources)
	}
	manifests, err := alice.api.ListManifests(t.Context(), &podconfigv1.ListManifestsRequest{})
	if err != nil || len(manifests.GetManifests()) != 1 || manifests.GetManifests()[0].GetRef().GetName() != "a" {
		t.Errorf("alice's documents are %v, %v", manifests, err)
	}
	if all, err := w.api.ListManifests(t.Context(), &podconfigv1.ListManifestsRequest{}); err != nil || len(all.GetManifests()) != 2 {
		t.Errorf("root's documents are %v, %v; want both", all, err)
	}
	stream, err := alice.api.WatchPodUpdates(t.Context(), reference(nil))
	if err == nil {
		_, err = stream.Recv()
	}
	wantCode(t, "alice's stream", err, codes.PermissionDenied)
	_, err = w.as(access.Caller{Identity: "o", Role: access.Operator}).api.ListManifests(t.Context(), &podconfigv1.ListManifestsRequest{})
	wantCode(t, "an operator's list of documents", err, codes.PermissionDenied)
}

// TestConflictOfAnApplied: a pod of a file takes the name of an applied one, which then waits, and is served again once the file
// is gone. The deployer gets the finding, without the file.
func TestConflictOfAnApplied(t *testing.T) {
	w := startWritable(t)
	alice := w.as(deployer("alice"))
	mustApply(alice, manifestOf("a", "v1"))
	w.manifests(manifestOf("a", "v2"))
	if got := w.served(); got != "default/a-node=v2" {
		t.Errorf("served is %q; want the file's", got)
	}
	findings := alice.sources()["applied"].GetFindings()
	if len(findings) != 1 || findings[0].GetOrigin() != "applied/default/default/a" || strings.Contains(findings[0].GetMessage(), "/etc/") {
		t.Errorf("alice's findings are %v; want one, without the file", findings)
	}
	if other := w.as(deployer("bob")).sources()["applied"].GetFindings(); len(other) > 0 {
		t.Errorf("bob's findings are %v; want none", other)
	}
	w.manifests()
	if got := w.served(); got != "default/a-node=v1" {
		t.Errorf("served is %q; want the applied one again", got)
	}
}

// TestTakenOver: root may apply a pod in place of a deployer's, which doesn't see it any more, and can't change it.
func TestTakenOver(t *testing.T) {
	w := startWritable(t)
	alice := w.as(deployer("alice"))
	mustApply(alice, manifestOf("a", "v1"))
	if r := mustApply(w.node, manifestOf("a", "v1")).GetResults()[0]; r.GetPreviousCaller() != "alice" || actions([]*podconfigv1.ManifestResult{r}) != "configured a" {
		t.Errorf("root's write has the result %v", r)
	}
	if pods := alice.list(&podconfigv1.ListPodsRequest{}).GetPods(); len(pods) > 0 {
		t.Errorf("alice still sees %v", pods)
	}
	_, err := applyTo(alice, manifestOf("a", "v2"))
	wantCode(t, "alice's write", err, codes.AlreadyExists)
}
