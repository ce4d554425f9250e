package podctl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// podName is the pod that a command line is about.
type podName struct{ namespace, name string }

// addNamespaceFlag adds -n to a command about one pod.
func (p *podName) addNamespaceFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&p.namespace, "namespace", "n", "default", "the pod's `namespace`")
}

// set takes the name as it was given: also kubectl's pod/NAME.
func (p *podName) set(argument string) {
	p.name = argument
	if kind, name, ok := strings.Cut(argument, "/"); ok && slices.Contains([]string{"pod", "pods", "po"}, kind) {
		p.name = name
	}
}

func (p podName) String() string { return p.namespace + "/" + p.name }

// names are the names that may be meant: a static pod bears the node's name at its end, which may be left out on the node itself.
func (t *tool) names(p podName) []string {
	return []string{p.name, p.name + "-" + strings.ToLower(t.Hostname)}
}

func (t *tool) filterOf(p podName) *podconfigv1.PodFilter {
	return &podconfigv1.PodFilter{Namespaces: []string{p.namespace}, Names: t.names(p)}
}

// meant are those of the pods with one of these names that bear the first name that any of them has.
func meant[T any](pods []T, names []string, nameOf func(T) string) []T {
	for _, name := range names {
		if named := slices.DeleteFunc(slices.Clone(pods), func(p T) bool { return nameOf(p) != name }); len(named) > 0 {
			return named
		}
	}
	return nil
}

// findObserved is the pod that podexecd has under this name. Of two incarnations the desired one is meant.
func (t *tool) findObserved(ctx context.Context, p podName) (*podconfigv1.PodRef, error) {
	ctx, cancel := t.listContext(ctx)
	defer cancel()
	pods, err := t.listObserved(ctx, t.filterOf(p))
	if err != nil {
		return nil, err
	}
	pods = meant(pods, t.names(p), func(o *podexecv1.ObservedPod) string { return o.GetRef().GetName() })
	if len(pods) == 0 {
		return nil, t.noSuchPod(ctx, p)
	}
	desired := max(0, slices.IndexFunc(pods, (*podexecv1.ObservedPod).GetDesired))
	return pods[desired].GetRef(), nil
}

// noSuchPod is the error for a name that podexecd doesn't know; it tells of names that begin so.
func (t *tool) noSuchPod(ctx context.Context, p podName) error {
	ctx, cancel := t.listContext(ctx)
	defer cancel()
	text := fmt.Sprintf("there is no pod %s", p)
	// The list only helps to find the name: without it the answer is the same.
	pods, _ := t.listObserved(ctx, &podconfigv1.PodFilter{Namespaces: []string{p.namespace}})
	var similar []string
	for _, o := range pods {
		if name := o.GetRef().GetName(); strings.HasPrefix(name, p.name+"-") {
			similar = append(similar, name)
		}
	}
	if len(similar) > 0 {
		slices.Sort(similar)
		text += fmt.Sprintf("; there is %s", strings.Join(slices.Compact(similar), ", "))
	}
	return &callError{text: text, err: status.Error(codes.NotFound, text)}
}
