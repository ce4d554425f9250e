package podctl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// unknownCommand returns the error for a command line without a known command, with podctl's equivalent; nil if the
// command is known.
func unknownCommand(root *cobra.Command, args []string) error {
	found, rest, err := root.Find(args)
	if err == nil {
		return nil
	}
	// Find quotes the unknown word. Flags may come before it.
	at := slices.IndexFunc(rest, func(word string) bool {
		return strings.HasPrefix(err.Error(), fmt.Sprintf("unknown command %q ", word))
	})
	if at < 0 {
		return err
	}
	word, after := rest[at], rest[at+1:]
	if advice, ok := adviceFor(word, after); ok {
		return fmt.Errorf("unknown command %q for %q: %s", word, found.CommandPath(), advice)
	}
	if similar := found.SuggestionsFor(word); len(similar) > 0 {
		return fmt.Errorf("unknown command %q for %q: did you mean %s?", word, found.CommandPath(), strings.Join(similar, " or "))
	}
	return err
}

// adviceFor returns podctl's equivalent of another tool's command.
func adviceFor(word string, after []string) (string, bool) {
	switch word {
	case "list", "ls", "show":
		return fmt.Sprintf("did you mean podctl %s?", listOf(after)), true
	case "status", "inspect":
		return "did you mean podctl pods?", true
	case "pull":
		return "did you mean podctl images pull?", true
	case "rmi", "prune":
		return "did you mean podctl images prune?", true
	case "stats":
		return "did you mean podctl top pods?", true
	case "rollout":
		return "did you mean podctl restart?", true
	case "create", "replace":
		return "did you mean podctl apply?", true
	case "rm":
		return "did you mean podctl delete?", true
	case "patch", "run", "scale", "start", "stop", "kill":
		return "put a manifest into the directory of a source, or remove it there (see podctl sources), or use podctl apply and delete; " +
			"podctl diff shows the effect first", true
	case "debug":
		return "podctl has no such command; kubectl has, on a node of a cluster", true
	}
	return "", false
}

// listOf returns the command that lists the argument of `get`.
func listOf(after []string) string {
	for _, word := range after {
		kind, _, _ := strings.Cut(word, "/")
		switch kind {
		case "event", "events", "ev":
			return "events"
		case "cm", "configmap", "configmaps", "secret", "secrets":
			return "objects"
		case "source", "sources":
			return "sources"
		case "consumer", "consumers":
			return "consumers"
		}
	}
	return "pods"
}
