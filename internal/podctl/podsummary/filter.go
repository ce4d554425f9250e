package podsummary

import (
	"strings"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// FilterText returns a filter in the words of PodFilter; empty for all pods.
func FilterText(f *podconfigv1.PodFilter) string {
	var parts []string
	for _, field := range []struct {
		name   string
		values []string
	}{
		{"sources", f.GetSources()}, {"nodes", f.GetNodes()}, {"namespaces", f.GetNamespaces()}, {"names", f.GetNames()},
	} {
		if len(field.values) > 0 {
			parts = append(parts, field.name+"="+strings.Join(field.values, ","))
		}
	}
	if selector := f.GetLabelSelector(); selector != "" {
		parts = append(parts, "labels="+selector)
	}
	return strings.Join(parts, " ")
}
