package podctl

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podstream/podstream/internal/podctl/render"
)

// The bounds of a completion: how long the daemons' answers are awaited while a shell completes a word, and the number of words.
const (
	completionPatience = time.Second
	maxCompletions     = 1000
)

// completer lists the completions of a word.
type completer func(ctx context.Context, cmd *cobra.Command, args []string) []string

// argumentCompleters complete the arguments of a command, by its path without "podctl".
func (t *tool) argumentCompleters() map[string]cobra.CompletionFunc {
	pods := t.shellFunc(t.podNames, isName)
	onePod := atFirst(pods)
	return map[string]cobra.CompletionFunc{
		"attach":             onePod,
		"config use-context": atFirst(t.shellFunc(t.contextNames, isName)),
		"delete":             pods,
		"describe":           pods,
		"diff": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
		},
		"edit":           onePod,
		"events":         onePod,
		"exec":           onePod,
		"get":            t.completeGet,
		"images pull":    atFirst(t.shellFunc(t.imageNames, isImageName)),
		"logs":           onePod,
		"pods":           pods,
		"port-forward":   onePod,
		"ps":             pods,
		"restart":        onePod,
		"sources accept": atFirst(t.shellFunc(t.sourceNames, isSourceName)),
		"top pods":       pods,
		"wait":           pods,
	}
}

// flagCompleters complete the values of a flag, by its name. They are for commands that have the flag. A command's path
// before the name means this command only.
func (t *tool) flagCompleters() map[string]cobra.CompletionFunc {
	return map[string]cobra.CompletionFunc{
		"container": t.shellFunc(t.containerNames, isName),
		"context":   t.shellFunc(t.contextNames, isName),
		"format":    words("json", "protobuf", "reference"),
		"mode":      words("incremental", "snapshot-and-updates", "snapshot"),
		"name":      t.shellFunc(t.podNames, isName),
		"namespace": t.shellFunc(t.namespaceNames, isName),
		"output":    words(render.Formats()...),
		"source":    t.shellFunc(t.sourceNames, isSourceName),
		"types":     words("Normal", "Warning"),

		"top pods --sort-by": words(string(byCPU), string(byMemory)),
	}
}

// addCompletions completes names in a shell: `podctl completion SHELL` prints its script.
func (t *tool) addCompletions(root *cobra.Command) {
	arguments, flags := t.argumentCompleters(), t.flagCompleters()
	var add func(cmd *cobra.Command)
	add = func(cmd *cobra.Command) {
		for flag, complete := range flags {
			path, name, ofOne := strings.Cut(flag, " --")
			if ofOne && path == pathOf(cmd) {
				flag = name
			}
			own := cmd.LocalNonPersistentFlags().Lookup(flag) != nil
			if own || cmd == root && root.PersistentFlags().Lookup(flag) != nil {
				// It fails only for an unknown flag, or one that has a completion.
				_ = cmd.RegisterFlagCompletionFunc(flag, complete)
			}
		}
		if complete := arguments[pathOf(cmd)]; complete != nil {
			cmd.ValidArgsFunction = complete
		}
		for _, sub := range cmd.Commands() {
			add(sub)
		}
	}
	add(root)
}

// words completes one of these words. One that ends in "=" is continued.
func words(list ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		found := slices.DeleteFunc(slices.Clone(list), func(word string) bool { return !strings.HasPrefix(word, begun) })
		directive := cobra.ShellCompDirectiveNoFileComp
		if len(found) == 1 && strings.HasSuffix(found[0], "=") {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return found, directive
	}
}

// atFirst completes the first argument only.
func atFirst(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, begun)
	}
}

// isName reports whether a word can be the name of a pod, a container, a namespace or a context. Others aren't offered: a shell
// would interpret their characters.
func isName(word string) bool { return len(validation.IsDNS1123Subdomain(word)) == 0 }

// isSourceName reports whether a word can be the name of a source: KIND or KIND:NAME.
func isSourceName(word string) bool {
	kind, name, named := strings.Cut(word, ":")
	return isName(kind) && (!named || isName(name))
}

// imageName is a name of an image such as registry.example:5000/app:1 or app@sha256:….
var imageName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._:/@-]{0,500}[A-Za-z0-9])?$`)

// isImageName reports whether a word can be the name of an image. A shell interprets none of its characters.
func isImageName(word string) bool { return imageName.MatchString(word) }

// shellFunc wraps a completer for cobra. It drops words that aren't valid.
func (t *tool) shellFunc(complete completer, valid func(string) bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), cmp.Or(t.CompletionPatience, completionPatience))
		defer cancel()
		if err := t.useContext(ctx, cmd); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp // The command will print the error.
		}
		found := slices.DeleteFunc(complete(ctx, cmd, args), func(word string) bool { return !strings.HasPrefix(word, begun) || !valid(word) })
		slices.Sort(found)
		found = slices.Compact(found)
		return found[:min(len(found), maxCompletions)], cobra.ShellCompDirectiveNoFileComp
	}
}

// completeGet completes the types of get, and the names of pods as NAME or as TYPE/NAME.
func (t *tool) completeGet(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	pods := t.shellFunc(t.podNames, isName)
	kind, name, slashed := strings.Cut(begun, "/")
	switch {
	case slashed:
		found, directive := pods(cmd, nil, name)
		if r, err := t.getResource(kind); err != nil || r.names[0] != "pods" {
			found = nil
		}
		for i := range found {
			found[i] = kind + "/" + found[i]
		}
		return found, directive
	case len(args) > 0:
		if r, err := t.getResource(args[0]); err != nil || r.names[0] != "pods" && r.names[0] != "events" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return pods(cmd, args, begun)
	}
	var types []string
	for _, r := range t.getResources() {
		types = append(types, r.names[0])
	}
	return words(types...)(cmd, args, begun)
}
