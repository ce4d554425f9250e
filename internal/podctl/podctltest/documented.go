package podctltest

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Task is a row of the table in docs/podctl.md: what people do on a node, and how podctl does it.
type Task struct {
	Name string
	// Commands are the words of each podctl command, after "podctl". A redirection isn't part of them.
	Commands [][]string
	// Others are the words of each command of kubectl, podman and crictl that does the same, with the program's name.
	Others [][]string
}

// Documented returns the tasks of docs/podctl.md, the file at path.
func Documented(path string) ([]Task, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var tasks []Task
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, "\x00"), "|")
		if len(cells) != 5 || !strings.Contains(cells[3], "`podctl ") {
			continue
		}
		task := Task{Name: strings.TrimSpace(cells[1])}
		for _, command := range commandsIn(cells[3], "podctl") {
			words, err := Words(command)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", command, err)
			}
			task.Commands = append(task.Commands, words[1:])
		}
		for _, command := range commandsIn(cells[2], "kubectl", "podman", "crictl") {
			words, err := Words(command)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", command, err)
			}
			task.Others = append(task.Others, words)
		}
		tasks = append(tasks, task)
	}
	return tasks, nil
}

var (
	codeSpan    = regexp.MustCompile("`([^`]+)`")
	sourced     = regexp.MustCompile(`^source <\((.*)\)$`)
	redirection = regexp.MustCompile(`\s[<>].*$`)
)

// commandsIn returns the commands of a cell that run one of the programs.
func commandsIn(cell string, programs ...string) []string {
	var out []string
	for _, span := range codeSpan.FindAllStringSubmatch(cell, -1) {
		for part := range strings.SplitSeq(span[1], "\x00") {
			part = sourced.ReplaceAllString(strings.TrimSpace(part), "$1")
			part = redirection.ReplaceAllString(part, "")
			if program, _, _ := strings.Cut(part, " "); slices.Contains(programs, program) {
				out = append(out, part)
			}
		}
	}
	return out
}

// Words splits a command as a shell does that knows quotes only.
func Words(command string) ([]string, error) {
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
