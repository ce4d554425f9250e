package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// seriesOf returns the names of the series that the package declares.
func seriesOf(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			pair, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			key, isName := pair.Key.(*ast.Ident)
			value, isText := pair.Value.(*ast.BasicLit)
			if isName && isText && key.Name == "Name" && value.Kind == token.STRING {
				if name, err := strconv.Unquote(value.Value); err == nil {
					names = append(names, name)
				}
			}
			return true
		})
	}
	return names
}

// testedSeries returns the words of all tests that could be names of series.
func testedSeries(t *testing.T) map[string]bool {
	t.Helper()
	words, word := map[string]bool{}, regexp.MustCompile(`[a-z]+(_[a-z0-9]+)+`)
	parts := regexp.MustCompile(`_(bucket|count|sum)$`) // of a histogram
	for _, root := range []string{"../../internal", "../../test"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "../../test/layout/") {
				return err
			}
			data, err := os.ReadFile(path)
			for _, w := range word.FindAllString(string(data), -1) {
				words[w], words[parts.ReplaceAllString(w, "")] = true, true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return words
}

// untested returns the series that no test names.
func untested(series []string, tested map[string]bool) []string {
	return slices.DeleteFunc(slices.Clone(series), func(name string) bool { return tested[name] })
}

// TestEachSeriesIsTested: each of the kubelet's series that podexecd serves is named by a test, which makes it move.
func TestEachSeriesIsTested(t *testing.T) {
	series, tested := seriesOf(t, "../../internal/kubeletmetrics"), testedSeries(t)
	if len(series) < 75 {
		t.Errorf("%d series are found: %q", len(series), series)
	}
	if missing := untested(series, tested); len(missing) > 0 {
		t.Errorf("no test names %q", missing)
	}
	// A series without a test is found.
	planted := maps.Clone(tested)
	delete(planted, "kubelet_mirror_pods")
	if missing := untested(series, planted); !slices.Equal(missing, []string{"kubelet_mirror_pods"}) {
		t.Errorf("without the test of kubelet_mirror_pods, those without a test are %q", missing)
	}
}
