package execconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// tableRow is a row of docs/fields.md.
type tableRow struct {
	field, example, beside, fate string
	tests                        []string
}

var (
	rowPattern  = regexp.MustCompile("^\\| `(\\w+)` \\| `([^`]*)`(?: \\+ `([^`]*)`)? \\| ([a-z ]+) \\| (.*) \\|$")
	testPattern = regexp.MustCompile("^`([a-z0-9/]+)\\.(Test\\w+)`$")
)

// readTable returns the rows of the table of fields.
func readTable(t *testing.T) (rows []tableRow) {
	t.Helper()
	text, err := os.ReadFile("../../docs/fields.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "| field | example | fate | tests |\n|---|---|---|---|\n")
	if !found {
		t.Fatal("docs/fields.md has no table of fields")
	}
	table, _, _ = strings.Cut(table, "\n\n") // The table of flags follows.
	for line := range strings.Lines(table) {
		m := rowPattern.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			t.Fatalf("docs/fields.md: this isn't a row: %s", line)
		}
		rows = append(rows, tableRow{field: m[1], example: m[2], beside: m[3], fate: m[4], tests: strings.Split(m[5], ", ")})
	}
	return rows
}

// findTest returns an error if no file of the package has the test.
func findTest(name string) error {
	m := testPattern.FindStringSubmatch(name)
	if m == nil {
		return fmt.Errorf("%s isn't a package and a test", name)
	}
	files, err := filepath.Glob(filepath.Join("../..", m[1], "*_test.go"))
	if err != nil {
		return err
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.Contains(string(text), "\nfunc "+m[2]+"(t *testing.T)") {
			return nil
		}
	}
	return fmt.Errorf("no file in %s has %s", m[1], m[2])
}

// fateOf returns what podexecd does with a file of these lines, in the words of the table.
func fateOf(t *testing.T, row *tableRow) (fate string, err error) {
	t.Helper()
	example := row.field + ": " + row.example + "\n"
	before, err := settle(t, row.beside)
	if err != nil {
		// What stands beside the field is no error without it, except where the pair is needed.
		if before, err = settle(t, ""); err != nil {
			return "", err
		}
	}
	after, err := settle(t, example+row.beside)
	switch {
	case err != nil && strings.Contains(err.Error(), row.field) && strings.Contains(err.Error(), "does not support"):
		return "refused", nil
	case err != nil:
		return "", err
	case slices.Contains(after.Unsupported, row.field):
		return "no effect", nil
	case slices.Contains(after.Ignored, row.field):
		return "not needed", nil
	case slices.Contains(after.Podconfigd, row.field):
		return "podconfigd", nil
	}
	lists := cmpopts.IgnoreFields(Settings{}, "Unsupported", "Podconfigd", "Ignored", "Warnings", "Exceptions")
	equal := cmp.Options{lists, cmpopts.EquateEmpty(), cmpopts.EquateComparable(before.Cluster.NodeAPI.Address), cmpopts.IgnoreUnexported(Settings{})}
	if cmp.Equal(*before, *after, equal) {
		return "", fmt.Errorf("the example changes no setting")
	}
	return "podexecd", nil
}

// TestFieldsTable: docs/fields.md has each field in its order, with what really happens to the example, and tests that exist.
func TestFieldsTable(t *testing.T) {
	rows := readTable(t)
	var fields, listed []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[kubeletconfigv1beta1.KubeletConfiguration]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "kind" && name != "apiVersion" {
			fields = append(fields, name)
		}
	}
	for i := range rows {
		row := &rows[i]
		listed = append(listed, row.field)
		fate, err := fateOf(t, row)
		if err != nil || fate != row.fate {
			t.Errorf("docs/fields.md: %s with the example has the fate %q, error %v; the table has %q", row.field, fate, err, row.fate)
		}
		for _, name := range row.tests {
			if err := findTest(name); err != nil {
				t.Errorf("docs/fields.md: %s: %v", row.field, err)
			}
		}
	}
	if diff := cmp.Diff(fields, listed); diff != "" {
		t.Errorf("docs/fields.md has other fields than KubeletConfiguration (-type +table):\n%s", diff)
	}
	t.Logf("%d fields", len(listed))
}

// TestFieldsTableFaults: the checks of TestFieldsTable find a wrong fate, an example without an effect, and a test that isn't there.
func TestFieldsTableFaults(t *testing.T) {
	for _, row := range []tableRow{
		{field: "maxPods", example: "110"},
		{field: "maxPods", example: "many"},
	} {
		if fate, err := fateOf(t, &row); err == nil {
			t.Errorf("%s: %s has the fate %q", row.field, row.example, fate)
		}
	}
	for _, name := range []string{"`internal/execconfig.TestAbsent`", "`internal/absent.TestSettle`", "TestSettle", "`internal/execconfig.TestSettl`"} {
		if findTest(name) == nil {
			t.Errorf("%s was found", name)
		}
	}
}
