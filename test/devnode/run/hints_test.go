package main

import (
	"bytes"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/podctl"
)

// After the line to copy, podctl connects to this node. podctl has each suggested command.
func TestHints(t *testing.T) {
	dir := t.TempDir()
	text := hints{runDir: dir, bin: dir + "/bin", manifest: dir + "/manifests/hello.yaml", logs: dir + "/log", podexecd: 7}.String()
	var exports []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, "export ") {
			exports = append(exports, line)
		}
	}
	if len(exports) != 1 || strings.Contains(text, "-endpoint") {
		t.Fatalf("%d lines to copy; want one, and no flags for endpoints:\n%s", len(exports), text)
	}
	variables, err := exec.Command("sh", "-c", exports[0]+"env").Output()
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (code int, output string) {
		var out bytes.Buffer
		code = podctl.Run(t.Context(), podctl.Config{Args: args, Stdout: &out, Stderr: &out, Getenv: func(name string) string {
			for line := range strings.Lines(string(variables)) {
				if value, ok := strings.CutPrefix(line, name+"="); ok {
					return strings.TrimSpace(value)
				}
			}
			return ""
		}})
		return code, out.String()
	}
	if _, output := run("sources"); !strings.Contains(output, "unix://"+dir+"/podconfigd.sock") {
		t.Errorf("after %q podctl prints %q; want the directory %s", exports[0], output, dir)
	}
	var commands []string
	for _, found := range regexp.MustCompile(`podctl (\w+)`).FindAllStringSubmatch(text, -1) {
		commands = append(commands, found[1])
	}
	if !slices.Contains(commands, "logs") {
		t.Errorf("the commands are %v; want them to contain logs", commands)
	}
	for _, command := range commands {
		if code, output := run(command, "--help"); code != 0 {
			t.Errorf("podctl %s --help: exit code %d, %s", command, code, output)
		}
	}
}
