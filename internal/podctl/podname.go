package podctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// podName is the pod on a command line.
type podName struct {
	namespace oneNamespace
	name      string
}

// addNamespaceFlag adds -n to a command about one pod.
func (p *podName) addNamespaceFlag(cmd *cobra.Command) {
	p.namespace = defaultNamespace
	cmd.Flags().VarP(&p.namespace, "namespace", "n", "the pod's `namespace`")
}

// set sets the name from NAME or kubectl's pod/NAME.
func (p *podName) set(argument string) {
	p.name = argument
	if kind, name, ok := strings.Cut(argument, "/"); ok && slices.Contains([]string{"pod", "pods", "po"}, kind) {
		p.name = name
	}
}

// onePod wants the name of one pod on the command line.
func onePod(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return errors.New("want the name of a pod")
	case 1:
		return nil
	}
	return fmt.Errorf("want one pod; there are %d names", len(args))
}

// atMostOnePod is the Args of a command that takes the name of a pod, or none.
func atMostOnePod(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return onePod(cmd, args)
}

// podsOrSelector checks the arguments of a command that takes names of pods, at most so many, or a selector.
func podsOrSelector(cmd *cobra.Command, args []string, most int, selector labelSelector) error {
	switch {
	case selector == "" && (most == 1 || len(args) == 0):
		return onePod(cmd, args)
	case selector != "" && len(args) > 0:
		return errors.New("give the name of a pod, or --selector")
	}
	return nil
}

// selectedPods lists podexecd's pods that match the selector in a namespace. No pod is an error.
func (t *tool) selectedPods(ctx context.Context, namespace oneNamespace, selector labelSelector) ([]*podexecv1.ObservedPod, error) {
	ctx, cancel := t.listContext(ctx)
	defer cancel()
	pods, err := t.listObserved(ctx, &podconfigv1.PodFilter{Namespaces: []string{string(namespace)}})
	if err == nil {
		pods, err = labelledOnly(ctx, t.newLabelled(selector), pods, (*podexecv1.ObservedPod).GetRef)
	}
	if err == nil && len(pods) == 0 {
		err = fmt.Errorf("no pod in namespace %s matches %s", namespace, selector)
	}
	return pods, err
}

func (p podName) String() string { return string(p.namespace) + "/" + p.name }

// names returns the names that may be meant: a static pod's name without and with the node's suffix.
func (t *tool) names(ctx context.Context, p podName) []string {
	return []string{p.name, p.name + "-" + t.nodeName(ctx)}
}

// filterOf is the filter for the pods with one of these names in p's namespace.
func (p podName) filterOf(names []string) *podconfigv1.PodFilter {
	return &podconfigv1.PodFilter{Namespaces: []string{string(p.namespace)}, Names: names}
}

// matching returns the pods with the first of these names that any pod has.
func matching[T any](pods []T, names []string, nameOf func(T) string) []T {
	for _, name := range names {
		if named := slices.DeleteFunc(slices.Clone(pods), func(p T) bool { return nameOf(p) != name }); len(named) > 0 {
			return named
		}
	}
	return nil
}

// findObserved returns the reference of podexecd's pod with this name.
func (t *tool) findObserved(ctx context.Context, p podName) (*podconfigv1.PodRef, error) {
	pod, err := t.findPod(ctx, p)
	return pod.GetRef(), err
}

// findPod returns podexecd's pod with this name. Of two incarnations it is the desired one.
func (t *tool) findPod(ctx context.Context, p podName) (*podexecv1.ObservedPod, error) {
	ctx, cancel := t.listContext(ctx)
	defer cancel()
	names := t.names(ctx, p)
	pods, err := t.listObserved(ctx, p.filterOf(names))
	if err != nil {
		return nil, err
	}
	pods = matching(pods, names, func(o *podexecv1.ObservedPod) string { return o.GetRef().GetName() })
	if len(pods) == 0 {
		return nil, t.noSuchPod(ctx, p)
	}
	desired := max(0, slices.IndexFunc(pods, (*podexecv1.ObservedPod).GetDesired))
	return pods[desired], nil
}

// noSuchPod is the error for an unknown name; it lists the names that start with it.
func (t *tool) noSuchPod(ctx context.Context, p podName) error {
	ctx, cancel := t.listContext(ctx)
	defer cancel()
	text := fmt.Sprintf("there is no pod %s", p)
	// The list only helps to find the name: without it the answer is the same.
	pods, _ := t.listObserved(ctx, &podconfigv1.PodFilter{Namespaces: []string{string(p.namespace)}})
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
