package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// effects are the packages by which a function acts on more than its values: a pattern that ends in "/" matches all below it.
var effects = []string{
	"bufio", "context", "io", "io/fs", "log", "log/slog", "net", "net/", "os/exec", "os/signal", "syscall", "unsafe",
	"golang.org/x/sys/", "google.golang.org/grpc", "google.golang.org/grpc/", "k8s.io/client-go/", "k8s.io/cri-client/", "k8s.io/utils/clock",
}

// TestDecisionsArePure: the packages of podexecd that podctl may depend on start no goroutines, use no channels, and import nothing
// that reads or writes more than files. podctl depends on each of them.
func TestDecisionsArePure(t *testing.T) {
	podctl := dependencies(t, "cmd/podctl")
	for _, pkg := range decisions {
		if !slices.Contains(podctl, module+pkg) {
			t.Errorf("podctl doesn't depend on %s; remove it from the list", pkg)
		}
		files, err := filepath.Glob("../../" + pkg + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has files %v, %v", pkg, files, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, found := range impurities(t, file, nil) {
				t.Errorf("%s %s", file, found)
			}
		}
	}
}

// TestImpuritiesAreFound: each kind is found, and a pure file has none.
func TestImpuritiesAreFound(t *testing.T) {
	const planted = "package p\n\nimport (\n\t\"context\"\n\t\"net/http\"\n)\n\nvar c chan int\n\nfunc f(ctx context.Context) { go f(ctx); _ = http.Get }\n"
	if got := impurities(t, "planted.go", []byte(planted)); len(got) != 4 {
		t.Errorf("found %q; want two imports, a channel and a go statement", got)
	}
	if got := impurities(t, "pure.go", []byte("package p\n\nimport \"strings\"\n\nvar f = strings.ToLower\n")); len(got) != 0 {
		t.Errorf("found %q in a pure file", got)
	}
}

// impurities returns what a file has beyond functions of values. source may be nil: it is read.
func impurities(t *testing.T, path string, source []byte) (found []string) {
	t.Helper()
	var content any
	if source != nil {
		content = source
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, content, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range file.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		if slices.ContainsFunc(effects, func(e string) bool { return name == e || strings.HasSuffix(e, "/") && strings.HasPrefix(name, e) }) {
			found = append(found, "imports "+name)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.GoStmt:
			found = append(found, "starts a goroutine")
		case *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
			found = append(found, "uses a channel")
		}
		return true
	})
	return found
}
