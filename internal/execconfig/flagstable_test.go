package execconfig

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/podstream/podstream/internal/daemon"
)

// flagRow is a row of the table of flags in docs/fields.md.
type flagRow struct{ flag, fate, note string }

var flagRowPattern = regexp.MustCompile("^\\| `--([a-z0-9-]+)` \\| ([a-z ]+) \\| (.*?) ?\\|$")

func readFlagTable(t *testing.T) (rows []flagRow) {
	t.Helper()
	text, err := os.ReadFile("../../docs/fields.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "| flag | fate | note |\n|---|---|---|\n")
	if !found {
		t.Fatal("docs/fields.md has no table of flags")
	}
	for line := range strings.Lines(table) {
		m := flagRowPattern.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			t.Fatalf("docs/fields.md: this isn't a row: %s", line)
		}
		rows = append(rows, flagRow{m[1], m[2], m[3]})
	}
	return rows
}

// fateOfFlag returns what Podstream does with a flag of the kubelet, and the reason if that is nothing.
func fateOfFlag(set *pflag.FlagSet, common []string, name string) (fate, reason string, err error) {
	for _, f := range flagsWithoutEffect {
		if f.name == name {
			return "no effect", f.reason, nil
		}
	}
	switch {
	case slices.Contains(flagsOfPodconfigd, name):
		return "podconfigd", "", nil
	case slices.Contains([]string{"cpu-manager-policy", "memory-manager-policy", "topology-manager-policy", "qos-reserved"}, name):
		return "refused", "", nil
	case slices.Contains(common, name):
		return "both", "", nil
	case set.Lookup(name) != nil:
		return "podexecd", "", nil
	}
	return "", "", fmt.Errorf("podexecd has no flag %s", name)
}

// TestFlagsTable: docs/fields.md has each flag of the kubelet, with its fate, and the reason if it has no effect.
func TestFlagsTable(t *testing.T) {
	set := pflag.NewFlagSet("podexecd", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	var base daemon.Flags
	base.AddFlags(set, "podexecd")
	var f Flags
	f.AddFlags(set)
	list, err := os.ReadFile("../podexecd/testdata/kubelet-flags.txt")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for line := range strings.Lines(string(list)) {
		name, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		want = append(want, name)
	}
	// Flags that podexecd and podconfigd both obey; internal/launcher gives them to both.
	common := []string{"config", "config-dir", "hostname-override", "kubeconfig", "logging-format", "v"}
	for _, row := range readFlagTable(t) {
		got = append(got, row.flag)
		fate, reason, err := fateOfFlag(set, common, row.flag)
		if err != nil || fate != row.fate || reason != "" && reason != row.note {
			t.Errorf("docs/fields.md: --%s has the fate %q (%s), error %v; the table has %q (%s)", row.flag, fate, reason, err, row.fate, row.note)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/fields.md has other flags than the kubelet (-kubelet +table):\n%s", diff)
	}
	if _, _, err := fateOfFlag(set, common, "absent"); err == nil {
		t.Error("a flag that podexecd lacks has a fate")
	}
}
