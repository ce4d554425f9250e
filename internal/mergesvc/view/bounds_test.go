package view_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/mergesvc/view"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestFilterBounds: a filter at its limits is accepted. One entry or byte more is rejected, and the error names
// the field.
func TestFilterBounds(t *testing.T) {
	entries := func(n int) []string { return slices.Repeat([]string{"x"}, n) }
	selector := func(n int) string { return strings.Repeat("a,", n-1) + "a" }
	for _, tc := range []struct {
		name   string
		filter *podconfigv1.PodFilter
		want   string
	}{
		{"10000 sources", &podconfigv1.PodFilter{Sources: entries(10_000)}, ""},
		{"10000 of each", &podconfigv1.PodFilter{
			Sources: entries(10_000), Nodes: entries(10_000), Namespaces: entries(10_000), Names: entries(10_000),
		}, ""},
		{"too many sources", &podconfigv1.PodFilter{Sources: entries(10_001)}, "filter.sources: has 10001 entries; the maximum is 10000"},
		{"too many nodes", &podconfigv1.PodFilter{Nodes: entries(10_001)}, "filter.nodes: has 10001 entries; the maximum is 10000"},
		{"too many namespaces", &podconfigv1.PodFilter{Namespaces: entries(10_001)}, "filter.namespaces: has 10001 entries; the maximum is 10000"},
		{"too many names", &podconfigv1.PodFilter{Names: entries(10_001)}, "filter.names: has 10001 entries; the maximum is 10000"},
		{"1 MiB of names", &podconfigv1.PodFilter{Names: []string{strings.Repeat("x", 1<<20)}}, ""},
		{"more bytes in two lists", &podconfigv1.PodFilter{Names: []string{strings.Repeat("x", 1<<20)}, Nodes: []string{"n"}},
			"filter: its entries have 1048577 bytes together; the maximum is 1048576"},
		{"100 requirements", &podconfigv1.PodFilter{LabelSelector: selector(100)}, ""},
		{"too many requirements", &podconfigv1.PodFilter{LabelSelector: selector(101)},
			"filter.label_selector: has 101 requirements; the maximum is 100"},
		{"16 KiB of selector", &podconfigv1.PodFilter{LabelSelector: "a in (" + strings.Repeat("v,", 8188) + "v)"}, ""},
		{"a selector that is too long", &podconfigv1.PodFilter{LabelSelector: strings.Repeat("a", 16<<10+1)},
			"filter.label_selector: has 16385 bytes; the maximum is 16384"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := view.New(view.Config{Filter: tc.filter})
			if got := fmt.Sprint(err); tc.want == "" && err != nil || tc.want != "" && got != tc.want {
				t.Errorf("New: %v; want %q", err, tc.want)
			}
		})
	}
}
