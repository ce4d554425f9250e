package view

import (
	"fmt"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The bounds of a filter. podconfig.v1.PodFilter documents them.
const (
	// maxEntries is how many entries each list of a filter may have.
	maxEntries = 10_000
	// maxEntryBytes is how many bytes all entries of a filter may have together.
	maxEntryBytes = 1 << 20
	// maxSelectorBytes is the maximum length of a label selector, and maxRequirements of its requirements: each is
	// compared with each pod.
	maxSelectorBytes = 16 << 10
	maxRequirements  = 100
)

// entryOverhead is about the memory of a filter's entry beside its bytes: in the request, and in a set.
const entryOverhead = 96

// checkFilter returns an error that names the field that exceeds its bound. It only looks at lengths.
func checkFilter(f *podconfigv1.PodFilter) error {
	bytes := 0
	for _, list := range filterLists(f) {
		if n := len(list.entries); n > maxEntries {
			return fmt.Errorf("filter.%s: has %d entries; the maximum is %d", list.name, n, maxEntries)
		}
		for _, e := range list.entries {
			bytes += len(e)
		}
	}
	if bytes > maxEntryBytes {
		return fmt.Errorf("filter: its entries have %d bytes together; the maximum is %d", bytes, maxEntryBytes)
	}
	if n := len(f.GetLabelSelector()); n > maxSelectorBytes {
		return fmt.Errorf("filter.label_selector: has %d bytes; the maximum is %d", n, maxSelectorBytes)
	}
	return nil
}

// FilterSize returns about how many bytes of memory a filter takes while its View is used.
func FilterSize(f *podconfigv1.PodFilter) int {
	// The parser of selectors copies each word, and keeps a set of the values of each requirement.
	size := 16 * len(f.GetLabelSelector())
	for _, list := range filterLists(f) {
		for _, e := range list.entries {
			size += entryOverhead + len(e)
		}
	}
	return size
}

type filterList struct {
	name    string
	entries []string
}

func filterLists(f *podconfigv1.PodFilter) []filterList {
	return []filterList{
		{"sources", f.GetSources()}, {"nodes", f.GetNodes()}, {"namespaces", f.GetNamespaces()}, {"names", f.GetNames()},
	}
}
