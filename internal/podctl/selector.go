package podctl

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/labels"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// labelSelector is the value of --selector. Empty: all pods.
type labelSelector string

// addFlag adds -l.
func (s *labelSelector) addFlag(flags *pflag.FlagSet) {
	flags.VarP(s, "selector", "l", "only the pods that match this label `selector`, by the labels that podconfigd has of them")
}

// String implements pflag.Value.
func (s *labelSelector) String() string { return string(*s) }

// Type implements pflag.Value.
func (s *labelSelector) Type() string { return "selector" }

// Set implements pflag.Value. A repeated flag adds requirements.
func (s *labelSelector) Set(text string) error {
	if _, err := labels.Parse(text); err != nil {
		return err
	}
	if *s != "" && text != "" {
		text = string(*s) + "," + text
	}
	*s = labelSelector(text)
	return nil
}

// podQuery selects pods for a list. podexecd doesn't have the pods' labels: podctl requests from podconfigd which pods match.
type podQuery struct {
	// filter has no label selector. Nil: all pods.
	filter   *podconfigv1.PodFilter
	selector labelSelector
	// mirrors is set if mirror pods are listed beside their static pods.
	mirrors bool
}

// desired is the filter for podconfigd.
func (q podQuery) desired() *podconfigv1.PodFilter {
	if q.selector == "" {
		return q.filter
	}
	filter := &podconfigv1.PodFilter{}
	if q.filter != nil {
		filter = proto.CloneOf(q.filter)
	}
	filter.LabelSelector = string(q.selector)
	return filter
}

// labelled reports which pods match a selector, by their UIDs. It isn't safe for concurrent use.
type labelled struct {
	tool     *tool
	selector labelSelector
	// known are the answers. A pod is judged when it is first seen: one whose labels change stays in a watch, or out of it.
	known map[string]bool
}

// newLabelled returns nil for the empty selector, which every pod matches.
func (t *tool) newLabelled(selector labelSelector) *labelled {
	if selector == "" {
		return nil
	}
	return &labelled{tool: t, selector: selector, known: map[string]bool{}}
}

// The bounds of labelled: the answers that it keeps, and the pods of one question.
const maxJudged, judgedAtOnce = 20_000, 500

// labelError is the error of asking podconfigd.
type labelError struct{ error }

func (e labelError) Unwrap() error { return e.error }

// judge asks podconfigd about the pods that aren't known. Its error is a labelError.
func (l *labelled) judge(ctx context.Context, refs []*podconfigv1.PodRef) error {
	refs = slices.DeleteFunc(slices.Clone(refs), func(ref *podconfigv1.PodRef) bool {
		_, known := l.known[ref.GetUid()]
		return known
	})
	for some := range slices.Chunk(refs, judgedAtOnce) {
		filter := &podconfigv1.PodFilter{}
		for _, ref := range some {
			filter.Namespaces = append(filter.Namespaces, ref.GetNamespace())
			filter.Names = append(filter.Names, ref.GetName())
		}
		slices.Sort(filter.Namespaces)
		filter.Namespaces = slices.Compact(filter.Namespaces)
		ctx, cancel := l.tool.listContext(ctx)
		pods, err := l.tool.listDesiredAs(ctx, podQuery{filter: filter, selector: l.selector}.desired(), podconfigv1.PodFormat_POD_FORMAT_REFERENCE)
		cancel()
		if err != nil {
			return labelError{fmt.Errorf("find the pods that match %s: %w", l.selector, err)}
		}
		if len(l.known) > maxJudged {
			clear(l.known)
		}
		for _, ref := range some {
			l.known[ref.GetUid()] = slices.ContainsFunc(pods, func(p *podconfigv1.Pod) bool { return p.GetRef().GetUid() == ref.GetUid() })
		}
	}
	return nil
}

// matches reports whether a pod matches that was judged.
func (l *labelled) matches(ref *podconfigv1.PodRef) bool { return l == nil || l.known[ref.GetUid()] }

// labelledOnly returns the items whose pods match, and those without a pod.
func labelledOnly[T any](ctx context.Context, l *labelled, items []T, refOf func(T) *podconfigv1.PodRef) ([]T, error) {
	if l == nil {
		return items, nil
	}
	var refs []*podconfigv1.PodRef
	for _, item := range items {
		if ref := refOf(item); ref != nil {
			refs = append(refs, ref)
		}
	}
	if err := l.judge(ctx, refs); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(items), func(item T) bool { return refOf(item) != nil && !l.matches(refOf(item)) }), nil
}
