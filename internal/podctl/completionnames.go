package podctl

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podstream/podstream/internal/podctl/podsummary"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// chosenNamespaces returns the namespaces of -n. Empty means all.
func chosenNamespaces(cmd *cobra.Command) []string {
	flag := cmd.Flags().Lookup("namespace")
	if flag == nil || flag.Value.String() == "" {
		return nil
	}
	return strings.Split(flag.Value.String(), ",")
}

// knownRefs returns podexecd's pods in these namespaces, or podconfigd's if podexecd doesn't answer: at most one page.
func (t *tool) knownRefs(ctx context.Context, filter *podconfigv1.PodFilter) []*podconfigv1.PodRef {
	var refs []*podconfigv1.PodRef
	const reference = podconfigv1.PodFormat_POD_FORMAT_REFERENCE
	if conn, err := t.podexecd.connect(t.userAgent()); err == nil {
		defer conn.Close()
		resp, err := podexecv1.NewPodExecServiceClient(conn).ListPods(ctx, &podexecv1.ListPodsRequest{
			Format: reference, Filter: filter, PageSize: maxCompletions,
		})
		for _, p := range resp.GetPods() {
			refs = append(refs, p.GetRef())
		}
		if err == nil {
			return refs
		}
	}
	if conn, err := t.podconfigd.connect(t.userAgent()); err == nil {
		defer conn.Close()
		resp, _ := podconfigv1.NewPodConfigServiceClient(conn).ListPods(ctx, &podconfigv1.ListPodsRequest{
			Format: reference, Filter: filter, PageSize: maxCompletions,
		})
		for _, p := range resp.GetPods() {
			refs = append(refs, p.GetRef())
		}
	}
	return refs
}

// contextNames returns the names of the contexts in podctl.yaml.
func (t *tool) contextNames(ctx context.Context, cmd *cobra.Command, _ []string) []string {
	file, err := t.loadContexts(ctx, cmd)
	if file == nil || err != nil {
		return nil
	}
	return file.Names()
}

func (t *tool) podNames(ctx context.Context, cmd *cobra.Command, _ []string) []string {
	var names []string
	for _, ref := range t.knownRefs(ctx, &podconfigv1.PodFilter{Namespaces: chosenNamespaces(cmd)}) {
		names = append(names, ref.GetName())
	}
	return names
}

func (t *tool) namespaceNames(ctx context.Context, _ *cobra.Command, _ []string) []string {
	var names []string
	for _, ref := range t.knownRefs(ctx, nil) {
		names = append(names, ref.GetNamespace())
	}
	return names
}

// containerNames returns the containers of the pod on the command line.
func (t *tool) containerNames(ctx context.Context, cmd *cobra.Command, args []string) []string {
	if len(args) == 0 {
		return nil
	}
	var p podName
	pod, _, _ := strings.Cut(args[0], ":") // Of cp.
	p.set(pod[strings.LastIndex(pod, "/")+1:])
	candidates := t.names(ctx, p)
	pods, _ := t.listObserved(ctx, &podconfigv1.PodFilter{Namespaces: chosenNamespaces(cmd), Names: candidates})
	pods = matching(pods, candidates, func(o *podexecv1.ObservedPod) string { return o.GetRef().GetName() })
	pairs, _ := podsummary.Join(nil, pods)
	var names []string
	for _, pair := range pairs {
		if pair.Status == nil {
			continue
		}
		for _, c := range slices.Concat(
			pair.Status.ContainerStatuses, pair.Status.InitContainerStatuses, pair.Status.EphemeralContainerStatuses,
		) {
			names = append(names, c.Name)
		}
	}
	return names
}

// sourceNames returns the names of podconfigd's sources; for diff, only of those that read files.
func (t *tool) sourceNames(ctx context.Context, cmd *cobra.Command, _ []string) []string {
	conn, err := t.podconfigd.connect(t.userAgent())
	if err != nil {
		return nil
	}
	defer conn.Close()
	resp, _ := podconfigv1.NewPodConfigServiceClient(conn).ListSources(ctx, &podconfigv1.ListSourcesRequest{})
	var names []string
	for _, s := range resp.GetSources() {
		if kind, _, _ := strings.Cut(s.GetName(), ":"); kind == "file" || cmd.Name() != "diff" {
			names = append(names, s.GetName())
		}
	}
	return names
}

// imageNames returns the names of the images on this node, with which `images pull` updates one.
func (t *tool) imageNames(ctx context.Context, _ *cobra.Command, _ []string) []string {
	images, _ := t.listImages(ctx)
	var names []string
	for _, i := range images {
		names = append(names, i.GetTags()...)
	}
	return names
}
