package service

import (
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// matcher tells whether a pod of that source, namespace and name is one that the filter asks for. A nil filter asks for all.
func matcher(f *podconfigv1.PodFilter) (func(source, namespace, name string) bool, error) {
	switch {
	case f.GetLabelSelector() != "":
		return nil, status.Error(codes.InvalidArgument, "filter.label_selector: isn't applied to observed pods")
	case len(f.GetNodes()) > 0:
		return nil, status.Error(codes.InvalidArgument, "filter.nodes: isn't applied to observed pods")
	}
	matches := func(wanted []string, value string) bool { return len(wanted) == 0 || slices.Contains(wanted, value) }
	return func(source, namespace, name string) bool {
		return matches(f.GetSources(), source) && matches(f.GetNamespaces(), namespace) && matches(f.GetNames(), name)
	}, nil
}
