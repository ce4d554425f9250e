package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var quoted = regexp.MustCompile("`([^`]+)`")

// cellsOf are the texts in backquotes in each cell of the rows of a document's section.
func cellsOf(t *testing.T, file, section string) (rows [][][]string) {
	t.Helper()
	_, text, found := strings.Cut(read(t, file), "\n## "+section+"\n")
	if !found {
		t.Fatalf("%s has no section %s", file, section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		var row [][]string
		for _, cell := range strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|") {
			var names []string
			for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
				names = append(names, m[1])
			}
			row = append(row, names)
		}
		rows = append(rows, row)
	}
	return rows
}

// reasonNames returns the constants of package events by reason.
func reasonNames(t *testing.T) map[string][]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), "../../internal/execsvc/pod/events/reasons.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string][]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
			if value, ok := spec.Values[0].(*ast.BasicLit); ok {
				if reason, err := strconv.Unquote(value.Value); err == nil {
					names[reason] = append(names[reason], spec.Names[0].Name)
				}
			}
		}
		return true
	})
	return names
}

// mentions reports whether the code has the reason, or a constant of it.
func mentions(code, reason string, names map[string][]string) bool {
	words := append([]string{reason}, names[reason]...)
	return regexp.MustCompile(`\b(` + strings.Join(words, "|") + `)\b`).MatchString(code)
}

// codeOf returns the Go code of a file, or of the files of a directory, without tests.
func codeOf(t *testing.T, path string) string {
	t.Helper()
	files := []string{path}
	if !strings.HasSuffix(path, ".go") {
		files, _ = filepath.Glob(filepath.Join(path, "*.go")) // The only error is that of a bad pattern.
	}
	var code strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		code.Write(data)
	}
	return code.String()
}

// files with tests of podexecd: by the test's name, all files with a test of that name.
func testFiles(t *testing.T) map[string][]string {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	out := map[string][]string{}
	for _, root := range []string{"../../internal/execsvc", "../../internal/podexecd"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			data, err := os.ReadFile(path)
			for _, m := range declared.FindAllStringSubmatch(string(data), -1) {
				out[m[1]] = append(out[m[1]], string(data))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestEventsAreDocumented: each event of docs/events.md is recorded by the code that its row names, and one of the row's
// tests stands in a file that has the reason. Each reason of package events is in the document.
func TestEventsAreDocumented(t *testing.T) {
	const file = "docs/events.md"
	names, tests := reasonNames(t), testFiles(t)
	var recorded []string
	for _, row := range cellsOf(t, file, "Events that are recorded") {
		if len(row) != 5 {
			t.Fatalf("the row of %q has %d cells", row[0], len(row))
		}
		for _, reason := range row[0] {
			recorded = append(recorded, reason)
			if !slices.ContainsFunc(row[3], func(path string) bool {
				return mentions(codeOf(t, filepath.Join("../../internal", path)), reason, names)
			}) {
				t.Errorf("%s: none of %q records it", reason, row[3])
			}
			if !slices.ContainsFunc(row[4], func(test string) bool {
				return slices.ContainsFunc(tests[test], func(code string) bool { return mentions(code, reason, names) })
			}) {
				t.Errorf("%s: none of the tests %q has it", reason, row[4])
			}
		}
		for _, test := range row[4] {
			if len(tests[test]) == 0 {
				t.Errorf("%s isn't a test of podexecd", test)
			}
		}
	}
	for _, row := range cellsOf(t, file, "Events that are not recorded") {
		for _, reason := range row[0] {
			if slices.Contains(recorded, reason) || len(names[reason]) > 0 {
				t.Errorf("%s is recorded", reason)
			}
		}
	}
	for reason := range names {
		if reason != "Normal" && reason != "Warning" && !strings.Contains(read(t, file), "`"+reason+"`") {
			t.Errorf("%s isn't in %s", reason, file)
		}
	}
	if mentions("x := 1", "Starting", names) || !mentions("events.StartingKubelet", "Starting", names) {
		t.Error("code that records an event isn't told from other code")
	}
}
