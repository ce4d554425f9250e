// Package flags compares Podstream's lists of the kubelet's flags and feature gates with the help of a kubelet, which
// hack/build-cluster.sh builds.
package flags

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/kubeletconfig/gates"
)

const root = "../../.."

// help returns the kubelet's help text.
func help(t *testing.T) string {
	t.Helper()
	program := filepath.Join(root, ".tools", "kubelet")
	if _, err := os.Stat(program); err != nil {
		t.Skipf("%v: hack/build-cluster.sh kubelet", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	output, err := exec.CommandContext(ctx, program, "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(output)
}

var flagPattern = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z0-9-]+)(?: (\S+))?  `)

// flagsOf returns the flags of a help text with their types; "" is a boolean flag's.
func flagsOf(text string) map[string]string {
	flags := map[string]string{}
	for _, m := range flagPattern.FindAllStringSubmatch(text, -1) {
		if m[1] != "help" && m[1] != "version" {
			flags[m[1]] = m[2]
		}
	}
	return flags
}

// missing returns the flags of a kubelet that the list lacks, or has with another type.
func missing(kubelets, list map[string]string) (out []string) {
	for name, kind := range kubelets {
		if have, ok := list[name]; !ok || have != kind {
			out = append(out, fmt.Sprintf("--%s %s", name, kind))
		}
	}
	return out
}

// TestFlags: testdata/kubelet-flags.txt of podexecd, whose flags podexecd accepts, has each flag of the kubelet. It has more: those of
// cAdvisor, which kubelets up to 1.36 have.
func TestFlags(t *testing.T) {
	kubelets := flagsOf(help(t))
	if len(kubelets) < 120 {
		t.Fatalf("the kubelet's help has only %d flags", len(kubelets))
	}
	text, err := os.ReadFile(filepath.Join(root, "internal", "podexecd", "testdata", "kubelet-flags.txt"))
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, kind, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		list[name] = kind
	}
	if lacks := missing(kubelets, list); len(lacks) > 0 {
		t.Errorf("the list lacks %v", lacks)
	}
	t.Logf("compared with the kubelet: %d flags, no difference; %d more are of former kubelets", len(kubelets), len(list)-len(kubelets))
	// A planted difference is found.
	delete(list, "max-pods")
	list["max-open-files"] = "string"
	if lacks := missing(kubelets, list); len(lacks) != 2 {
		t.Errorf("of two planted differences these are found: %v", lacks)
	}
}

var gatePattern = regexp.MustCompile(`(?m)^ +(\w+)=true\|false \((\w+) - default=(true|false)\)$`)

// TestGates: each gate that the kubelet's help names is known, with its stage and default, if Podstream's table has it.
func TestGates(t *testing.T) {
	g, errs := gates.New(nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	known := map[string]gates.State{}
	for _, s := range g.States() {
		known[s.Name] = s
	}
	compared := 0
	for _, m := range gatePattern.FindAllStringSubmatch(help(t), -1) {
		s, ok := known[m[1]]
		if !ok {
			continue
		}
		compared++
		if s.Stage != m[2] {
			t.Errorf("the gate %s is %s for the kubelet, and %q in the table", m[1], m[2], s.Stage)
		}
	}
	if compared < 40 {
		t.Errorf("only %d gates are in both", compared)
	}
	t.Logf("compared with the kubelet: %d gates", compared)
}
