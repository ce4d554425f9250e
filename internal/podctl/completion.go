package podctl

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/podstream/podstream/internal/podctl/podsummary"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// completionPatience is the time limit for the daemons' answers while a shell completes a word.
const completionPatience = time.Second

// completer lists the completions of a word.
type completer func(ctx context.Context, cmd *cobra.Command, args []string) []string

// addCompletions completes the names of pods, containers, sources and namespaces in a shell: `podctl completion
// SHELL` prints its script.
func (t *tool) addCompletions(root *cobra.Command) {
	words := func(list ...string) completer {
		return func(context.Context, *cobra.Command, []string) []string { return list }
	}
	byFlag := map[string]completer{
		"namespace": t.namespaceNames, "container": t.containerNames, "source": t.sourceNames, "name": t.podNames,
		"output": words("table", "wide", "json", "yaml"),
		"mode":   words("incremental", "snapshot-and-updates", "snapshot"),
		"format": words("json", "protobuf", "reference"),
	}
	for _, cmd := range append(root.Commands(), root) {
		for flag, complete := range byFlag {
			if cmd.LocalNonPersistentFlags().Lookup(flag) != nil || cmd == root && flag == "output" {
				// It fails only for an unknown flag, or one that has a completion.
				_ = cmd.RegisterFlagCompletionFunc(flag, t.shellFunc(complete))
			}
		}
		switch cmd.Name() {
		case "pods", "wait", "delete":
			cmd.ValidArgsFunction = t.shellFunc(t.podNames)
		case "top":
			for _, sub := range cmd.Commands() {
				if sub.Name() == "pods" {
					sub.ValidArgsFunction = t.shellFunc(t.podNames)
					_ = sub.RegisterFlagCompletionFunc("namespace", t.shellFunc(t.namespaceNames))
					_ = sub.RegisterFlagCompletionFunc("sort-by", t.shellFunc(words(string(byCPU), string(byMemory))))
				}
			}
		case "describe", "events", "logs", "exec", "restart", "edit":
			cmd.ValidArgsFunction = t.shellFunc(func(ctx context.Context, cmd *cobra.Command, args []string) []string {
				if len(args) > 0 {
					return nil
				}
				return t.podNames(ctx, cmd, args)
			})
		case "diff":
			cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
			}
		}
	}
}

// shellFunc wraps a completer for cobra. It drops words with characters that don't occur in names: the shell would
// interpret them.
func (t *tool) shellFunc(complete completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
		defer cancel()
		found := slices.DeleteFunc(complete(ctx, cmd, args), func(word string) bool {
			return word == "" || !strings.HasPrefix(word, begun) || strings.ContainsFunc(word, func(r rune) bool {
				return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:", r)
			})
		})
		slices.Sort(found)
		return slices.Compact(found), cobra.ShellCompDirectiveNoFileComp
	}
}

// chosenNamespaces returns the namespaces of -n. Empty means all.
func chosenNamespaces(cmd *cobra.Command) []string {
	flag := cmd.Flags().Lookup("namespace")
	if flag == nil || flag.Value.String() == "" {
		return nil
	}
	return strings.Split(flag.Value.String(), ",")
}

// knownRefs returns podexecd's pods in these namespaces, or podconfigd's if podexecd doesn't answer.
func (t *tool) knownRefs(ctx context.Context, filter *podconfigv1.PodFilter) []*podconfigv1.PodRef {
	var refs []*podconfigv1.PodRef
	observed, err := t.listObserved(ctx, filter)
	for _, p := range observed {
		refs = append(refs, p.GetRef())
	}
	if err != nil {
		desired, _ := t.listDesired(ctx, filter)
		for _, p := range desired {
			refs = append(refs, p.GetRef())
		}
	}
	return refs
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
	p.set(args[0])
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
