package podctl

import (
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// unmerged are the commands of docs/podctl.md that aren't there yet. An entry whose command exists fails the test.
var unmerged = []string{"apply", "delete", "edit"}

// TestDocumentedCommands: each podctl command of docs/podctl.md exists, with its flags and arguments.
func TestDocumentedCommands(t *testing.T) {
	text, err := os.ReadFile("../../docs/podctl.md")
	if err != nil {
		t.Fatal(err)
	}
	tasks, missing := 0, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, "\x00"), "|")
		if len(cells) != 5 || !strings.Contains(cells[3], "`podctl ") {
			continue
		}
		tasks++
		for _, command := range commandsIn(cells[3]) {
			words, err := shellWords(command)
			if err != nil {
				t.Errorf("%s: %v", command, err)
				continue
			}
			name, err := parseCommand(words[1:])
			switch {
			case errors.Is(err, errNoCommand) && slices.Contains(unmerged, name):
				missing[name] = true
			case err != nil:
				t.Errorf("%s: %v", command, err)
			case slices.Contains(unmerged, name):
				t.Errorf("podctl %s is there: remove it from unmerged", name)
			}
		}
	}
	if tasks < 40 {
		t.Errorf("docs/podctl.md has %d tasks with a podctl command; want 40", tasks)
	}
	for _, name := range unmerged {
		if !missing[name] {
			t.Errorf("unmerged has %s, which docs/podctl.md doesn't have, or which is there", name)
		}
	}
	t.Logf("%d tasks; not there yet: %s", tasks, strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
}

// TestWrongCommandsAreFound: the check fails for a command, a flag or an argument that doesn't exist.
func TestWrongCommandsAreFound(t *testing.T) {
	for command, want := range map[string]string{
		"frobnicate web": "no such command", "pods --bogus": "unknown flag: --bogus", "pods -z": "unknown shorthand flag", "logs": "want the name of a pod",
		"logs a b": "want one pod", "sources web": "takes flags only", "get things": "there is no type", "config frobnicate": "no such command",
		"pods -o xml": "want table", "describe -o json web": "it has no --output",
	} {
		words, err := shellWords(command)
		if err == nil {
			_, err = parseCommand(words)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", command, err, want)
		}
	}
	for _, command := range []string{"logs 'a", `logs "a`} {
		if _, err := shellWords(command); err == nil {
			t.Errorf("%s: the open quote isn't found", command)
		}
	}
}

var (
	errNoCommand = errors.New("no such command")
	codeSpan     = regexp.MustCompile("`([^`]+)`")
	redirection  = regexp.MustCompile(`\s[<>].*$`)
)

// commandsIn returns the podctl commands of a cell.
func commandsIn(cell string) []string {
	var out []string
	for _, span := range codeSpan.FindAllStringSubmatch(cell, -1) {
		for part := range strings.SplitSeq(span[1], "\x00") {
			part = redirection.ReplaceAllString(strings.TrimSpace(part), "")
			if strings.HasPrefix(part, "podctl ") {
				out = append(out, part)
			}
		}
	}
	return out
}

// shellWords splits a command as a shell does that knows quotes only.
func shellWords(command string) ([]string, error) {
	var words []string
	var quote rune
	word, open := "", false
	for _, r := range command {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word += string(r)
		case r == '\'' || r == '"':
			quote, open = r, true
		case r == ' ':
			if open {
				words, word, open = append(words, word), "", false
			}
		default:
			word, open = word+string(r), true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote is open")
	}
	if open {
		words = append(words, word)
	}
	return words, nil
}

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
