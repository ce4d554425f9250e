package view_test

import (
	"regexp"
	"testing"

	"github.com/podstream/podstream/internal/mergesvc/view"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestHash: equivalent views have one hash, and others have different ones.
func TestHash(t *testing.T) {
	filter := func(f *podconfigv1.PodFilter) view.Config { return view.Config{Filter: f} }
	groups := [][]view.Config{
		{{}, {Mode: incremental}, filter(&podconfigv1.PodFilter{}), filter(&podconfigv1.PodFilter{LabelSelector: " "})},
		{{Mode: snapshot}},
		{{Mode: snapshotAndUpdates}},
		{{Redacted: true}},
		{
			filter(&podconfigv1.PodFilter{Names: []string{"a", "b"}}), filter(&podconfigv1.PodFilter{Names: []string{"b", "a", "b"}}),
			{Mode: incremental, Filter: &podconfigv1.PodFilter{Names: []string{"a", "b"}}},
		},
		{filter(&podconfigv1.PodFilter{Names: []string{"a b"}})},
		{filter(&podconfigv1.PodFilter{Names: []string{`a" "b`}})},
		{filter(&podconfigv1.PodFilter{Namespaces: []string{"a", "b"}})},
		{filter(&podconfigv1.PodFilter{Sources: []string{"a", "b"}})},
		{filter(&podconfigv1.PodFilter{Nodes: []string{"a", "b"}})},
		{{Nodes: []string{"a", "b"}}, {Nodes: []string{"b", "b", "a"}}},
		{{Sources: []string{"a", "b"}}},
		{
			filter(&podconfigv1.PodFilter{LabelSelector: "x=1,y in (b,a)"}),
			filter(&podconfigv1.PodFilter{LabelSelector: "y in (a, b), x=1"}),
			filter(&podconfigv1.PodFilter{LabelSelector: "y in (a,b),x=1,x=1"}),
		},
		{filter(&podconfigv1.PodFilter{LabelSelector: "x!=1,x!=2"}), filter(&podconfigv1.PodFilter{LabelSelector: "x!=2,x!=1"})},
	}
	seen := map[string]view.Config{}
	for _, group := range groups {
		hash := mustView(t, group[0]).Hash()
		if !regexp.MustCompile("^[0-9a-f]{16}$").MatchString(hash) {
			t.Errorf("the hash of %+v is %q; want 16 hex digits", group[0], hash)
		}
		if other, ok := seen[hash]; ok {
			t.Errorf("%+v and %+v have one hash; want two", group[0], other)
		}
		seen[hash] = group[0]
		for _, cfg := range group[1:] {
			if got := mustView(t, cfg).Hash(); got != hash {
				t.Errorf("the hash of %+v is %s; want %s, that of %+v", cfg, got, hash, group[0])
			}
		}
	}
}

// TestHashStays: the next version accepts a consumer's stored cursor.
func TestHashStays(t *testing.T) {
	for want, cfg := range map[string]view.Config{
		"b4e1ae73cced7114": {},
		"2fa413157b147833": {
			Mode: snapshot, Nodes: []string{"n1"}, Sources: []string{"file"}, Redacted: true,
			Filter: &podconfigv1.PodFilter{
				Sources: []string{"file"}, Nodes: []string{"n1"}, Namespaces: []string{"default"}, Names: []string{"web"},
				LabelSelector: "a=b",
			},
		},
	} {
		if got := mustView(t, cfg).Hash(); got != want {
			t.Errorf("the hash of %+v is %s; want %s, as it was in the first version", cfg, got, want)
		}
	}
}
