package view_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/view"
	"github.com/podstream/podstream/internal/redact"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestInScope: the nodes and sources of the role's scope decide which pods the caller may see. Its filter
// doesn't.
func TestInScope(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  view.Config
		want bool
	}{
		{"no scope", view.Config{}, true},
		{"no scope, a filter by another node", view.Config{Filter: &podconfigv1.PodFilter{Nodes: []string{"n2"}}}, true},
		{"its node", view.Config{Nodes: []string{"n1"}}, true},
		{"another node", view.Config{Nodes: []string{"n2"}}, false},
		{"another source", view.Config{Sources: []string{"another"}}, false},
		{"another node, a filter by its node", view.Config{Nodes: []string{"n2"}, Filter: &podconfigv1.PodFilter{Nodes: []string{"n1"}}}, false},
	} {
		if got := mustView(t, tc.cfg).InScope(pod("web")); got != tc.want {
			t.Errorf("%s: InScope reports %v; want %v", tc.name, got, tc.want)
		}
	}
}

// TestDigestsOfAView: a redacting view has the digests of the redacted pod, so that guesses of a secret can't
// be tested.
func TestDigestsOfAView(t *testing.T) {
	p := pod("web", func(p *revision.Pod) {
		p.Object.Spec.Containers = []v1.Container{{Name: "main", Env: []v1.EnvVar{{Name: "TOKEN", Value: "secret"}}}}
		p.SpecDigest, p.StatusDigest = "spec", "status"
	})
	whole, _ := mustView(t, view.Config{}).Digests(p)
	if whole != p.SpecDigest {
		t.Errorf("the digest of the whole pod is %q; want %q", whole, p.SpecDigest)
	}
	want, _ := p.Digests(redact.AudienceOf(access.Inspector))
	if got, _ := mustView(t, view.Config{Redacted: true}).Digests(p); got != want || got == "" || got == whole {
		t.Errorf("the digest for an inspector is %q; want %q, that of the redacted pod", got, want)
	}
}

// TestReadyByAnEmptyChange: the empty ADD of a source in the view is sent, even in a revision without
// BecameReady.
func TestReadyByAnEmptyChange(t *testing.T) {
	rev := &revision.Revision{Number: 2, Source: "api", Changes: []revision.Change{{Op: revision.ADD, Source: "file"}}}
	got := mustView(t, view.Config{Filter: &podconfigv1.PodFilter{Names: []string{"other"}}}).Changes(rev, nil)
	if len(got) != 1 || got[0].Source != "file" || len(got[0].Pods) != 0 {
		t.Errorf("the changes are %v; want the empty ADD of file", got)
	}
	if got := mustView(t, view.Config{Filter: &podconfigv1.PodFilter{Sources: []string{"api"}}}).Changes(rev, nil); len(got) > 0 {
		t.Errorf("the changes of a view that doesn't see file are %v; want none", got)
	}
}
