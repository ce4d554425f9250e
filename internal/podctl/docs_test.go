package podctl

import (
	"errors"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/podctl/podctltest"
)

// TestDocumentedCommands: each podctl command of docs/podctl.md exists, with its flags and arguments.
func TestDocumentedCommands(t *testing.T) {
	tasks, err := podctltest.Documented("../../docs/podctl.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		for _, words := range task.Commands {
			if err := parseCommand(words); err != nil {
				t.Errorf("podctl %s: %v", strings.Join(words, " "), err)
			}
		}
	}
	if len(tasks) < 60 {
		t.Errorf("docs/podctl.md has %d tasks with a podctl command; want 60", len(tasks))
	}
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
			err = parseCommand(words)
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

// parseCommand parses a command line without running it.
func parseCommand(words []string) error {
	tool := newTool(Config{Args: words, Getenv: noVariables})
	root := tool.command()
	root.InitDefaultCompletionCmd(words...)
	cmd, rest, err := root.Find(words)
	if err != nil || cmd.HasSubCommands() && !cmd.Runnable() {
		return errNoCommand
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	return errors.Join(cmd.ValidateArgs(cmd.Flags().Args()), checkIgnored(cmd))
}
