package podctl

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/podstream/podstream/internal/podctl/podctltest"
)

// unmerged are the commands of docs/podctl.md that aren't there yet. An entry whose command exists fails the test.
var unmerged []string

// TestDocumentedCommands: each podctl command of docs/podctl.md exists, with its flags and arguments.
func TestDocumentedCommands(t *testing.T) {
	tasks, err := podctltest.Documented("../../docs/podctl.md")
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{}
	for _, task := range tasks {
		for _, words := range task.Commands {
			name, err := parseCommand(words)
			switch {
			case errors.Is(err, errNoCommand) && slices.Contains(unmerged, name):
				missing[name] = true
			case err != nil:
				t.Errorf("podctl %s: %v", strings.Join(words, " "), err)
			case slices.Contains(unmerged, name):
				t.Errorf("podctl %s is there: remove it from unmerged", name)
			}
		}
	}
	if len(tasks) < 40 {
		t.Errorf("docs/podctl.md has %d tasks with a podctl command; want 40", len(tasks))
	}
	for _, name := range unmerged {
		if !missing[name] {
			t.Errorf("unmerged has %s, which docs/podctl.md doesn't have, or which is there", name)
		}
	}
	t.Logf("%d tasks; not there yet: %s", len(tasks), strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
}

// TestWrongCommandsAreFound: the check fails for a command, a flag or an argument that doesn't exist.
func TestWrongCommandsAreFound(t *testing.T) {
	for command, want := range map[string]string{
		"frobnicate web": "no such command", "pods --bogus": "unknown flag: --bogus", "pods -z": "unknown shorthand flag", "logs": "want the name of a pod",
		"logs a b": "want one pod", "sources web": "takes flags only", "get things": "there is no type", "config frobnicate": "no such command",
		"pods -o xml": "want table", "describe -o json web": "it has no --output",
	} {
		words, err := podctltest.Words(command)
		if err == nil {
			_, err = parseCommand(words)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", command, err, want)
		}
	}
	for _, command := range []string{"logs 'a", `logs "a`} {
		if _, err := podctltest.Words(command); err == nil {
			t.Errorf("%s: the open quote isn't found", command)
		}
	}
}

var errNoCommand = errors.New("no such command")

// parseCommand parses a command line without running it, and returns the command's name.
func parseCommand(words []string) (string, error) {
	tool := newTool(Config{Args: words, Getenv: noVariables})
	root := tool.command()
	root.InitDefaultCompletionCmd(words...)
	cmd, rest, err := root.Find(words)
	if err != nil || cmd.HasSubCommands() && !cmd.Runnable() {
		name := firstWord(root, words)
		return name, errNoCommand
	}
	if err := errors.Join(cmd.ParseFlags(rest), nil); err != nil {
		return cmd.Name(), err
	}
	return cmd.Name(), errors.Join(cmd.ValidateArgs(cmd.Flags().Args()), checkIgnored(cmd))
}

// firstWord returns the first word that isn't a global flag or its value.
func firstWord(root *cobra.Command, words []string) string {
	flags := root.PersistentFlags()
	for i := 0; i < len(words); i++ {
		name, _, valued := strings.Cut(strings.TrimLeft(words[i], "-"), "=")
		if !strings.HasPrefix(words[i], "-") {
			return words[i]
		}
		if flags.Lookup(name) != nil && !valued {
			i++
		}
	}
	return ""
}
