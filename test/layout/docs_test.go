package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// row is a row of ARCHITECTURE.md's table "Read in this order": its number, a file and a function.
var row = regexp.MustCompile("(?m)^\\| (\\d+) \\| `([^`]+\\.go)` `([^`]+)` \\|")

// TestReadInThisOrder: each function of ARCHITECTURE.md's table stands in the file that the table names.
func TestReadInThisOrder(t *testing.T) {
	text := read(t, "ARCHITECTURE.md")
	rows := row.FindAllStringSubmatch(text, -1)
	if len(rows) != 10 {
		t.Errorf("the table has %d rows; want 10", len(rows))
	}
	for _, r := range rows {
		if !declares(t, r[2], r[3]) {
			t.Errorf("row %s: %s declares no function %s", r[1], r[2], r[3])
		}
	}
	if declares(t, "internal/manifest/parse.go", "Parser") {
		t.Error("a function that doesn't exist is found")
	}
}

// declares reports whether the file declares the function, or the method as TYPE.METHOD.
func declares(t *testing.T, file, name string) bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return false
	}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && fullName(f) == name {
			return true
		}
	}
	return false
}

func fullName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	if id, ok := receiver.(*ast.Ident); ok {
		return id.Name + "." + f.Name.Name
	}
	return f.Name.Name
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	code    = regexp.MustCompile("(?s)```.*?```")
)

// TestLinks: each relative link of the documentation leads to a file, and to a heading of it.
func TestLinks(t *testing.T) {
	files, err := exec.Command("git", "-C", "../..", "ls-files", "*.md").Output()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, file := range strings.Fields(string(files)) {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(read(t, file), ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			checked++
			if problem := broken(t, file, m[1]); problem != "" {
				t.Errorf("%s: %s: %s", file, m[1], problem)
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d links were checked", checked)
	}
	if broken(t, "README.md", "docs/install.md#no-such-heading") == "" || broken(t, "README.md", "docs/none.md") == "" {
		t.Error("a broken link isn't found")
	}
}

// broken returns what is wrong with a link in the file, or "".
func broken(t *testing.T, file, target string) string {
	t.Helper()
	path, anchor, _ := strings.Cut(target, "#")
	at := filepath.Join(filepath.Dir(file), path)
	if path == "" {
		at = file
	}
	if _, err := os.Stat(filepath.Join("../..", at)); err != nil {
		return "there is no such file"
	}
	if anchor == "" {
		return ""
	}
	for _, h := range heading.FindAllStringSubmatch(code.ReplaceAllString(read(t, at), ""), -1) {
		if slug(h[1]) == anchor {
			return ""
		}
	}
	return "there is no such heading"
}

// slug returns the anchor that GitHub gives a heading.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z':
			return r
		}
		return -1
	}, strings.ToLower(heading))
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../..", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
