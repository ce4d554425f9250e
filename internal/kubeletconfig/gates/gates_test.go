package gates

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/component-base/featuregate"
)

func TestDefaults(t *testing.T) {
	g, mistakes := New(nil)
	if len(mistakes) > 0 || len(g.Warnings) > 0 {
		t.Fatalf("mistakes %v, warnings %q", mistakes, g.Warnings)
	}
	for name, want := range map[string]bool{GracefulNodeShutdown: true, MemoryQoS: true, ReduceDefaultCrashLoopBackOffDecay: false} {
		if got := g.Enabled(name); got != want {
			t.Errorf("%s is %t, want %t", name, got, want)
		}
	}
}

func TestSet(t *testing.T) {
	for name, test := range map[string]struct {
		set      map[string]bool
		on, off  []string
		warnings []string
		mistakes []string
	}{
		"one on, one off": {
			set: map[string]bool{ReduceDefaultCrashLoopBackOffDecay: true, MemoryQoS: false},
			on:  []string{ReduceDefaultCrashLoopBackOffDecay, GracefulNodeShutdown}, off: []string{MemoryQoS},
		},
		"all of a stage":        {set: map[string]bool{"AllBeta": false}, off: []string{GracefulNodeShutdown}},
		"one besides its stage": {set: map[string]bool{"AllBeta": false, MemoryQoS: true}, on: []string{MemoryQoS}, off: []string{GracefulNodeShutdown}},
		"unknown":               {set: map[string]bool{"NoSuchGate": true}, warnings: []string{"NoSuchGate is unknown"}},
		"without effect": {
			set:      map[string]bool{"EnvFiles": false, "PodCertificateRequest": true},
			warnings: []string{"EnvFiles is false, but podexecd always has", "PodCertificateRequest is true, but podexecd doesn't have"},
		},
		"locked":            {set: map[string]bool{"NodeSwap": false}, mistakes: []string{"NodeSwap is false; it is locked to true"}},
		"locked, its value": {set: map[string]bool{"NodeSwap": true}},
	} {
		t.Run(name, func(t *testing.T) {
			g, mistakes := New(test.set)
			texts := make([]string, 0, len(mistakes))
			for _, err := range mistakes {
				texts = append(texts, err.Error())
			}
			contain := func(what string, got, want []string) {
				t.Helper()
				if !slices.EqualFunc(got, want, strings.Contains) {
					t.Errorf("%s %q, want %q", what, got, want)
				}
			}
			contain("mistakes", texts, test.mistakes)
			contain("warnings", g.Warnings, test.warnings)
			for _, gate := range test.on {
				if !g.Enabled(gate) {
					t.Errorf("%s is off", gate)
				}
			}
			for _, gate := range test.off {
				if g.Enabled(gate) {
					t.Errorf("%s is on", gate)
				}
			}
		})
	}
}

// TestDocumented: the documentation has each gate that podexecd obeys, with its default.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range table {
		row := fmt.Sprintf("\n| `%s` | %t |", g.name, g.spec.Default)
		if has := strings.Contains(string(text), row); has != (g.fate == obeyed) {
			t.Errorf("docs/configuration.md has a row %q: %t; its fate is %d", row, has, g.fate)
		}
	}
}

func TestEachGateOnce(t *testing.T) {
	seen := map[featuregate.Feature]bool{}
	for _, g := range table {
		if seen[g.name] {
			t.Errorf("%s is there twice", g.name)
		}
		seen[g.name] = true
	}
}
