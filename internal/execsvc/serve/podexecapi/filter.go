package podexecapi

import (
	"slices"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// matcher returns a function that reports whether the filter selects a pod of that source, namespace and name. A nil
// filter selects all.
func matcher(f *podconfigv1.PodFilter) (func(source, namespace, name string) bool, error) {
	switch {
	case f.GetLabelSelector() != "":
		return nil, invalidArgument("filter.label_selector: isn't applied to observed pods")
	case len(f.GetNodes()) > 0:
		return nil, invalidArgument("filter.nodes: isn't applied to observed pods")
	}
	matches := func(wanted []string, value string) bool { return len(wanted) == 0 || slices.Contains(wanted, value) }
	return func(source, namespace, name string) bool {
		return matches(f.GetSources(), source) && matches(f.GetNamespaces(), namespace) && matches(f.GetNames(), name)
	}, nil
}
