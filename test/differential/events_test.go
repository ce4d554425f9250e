package differential

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	_ "k8s.io/kubernetes/pkg/kubelet/events" // TestEveryReasonIsDocumented reads its source.
)

// TestEveryReasonIsDocumented: docs/events.md says of each reason of the kubelet's list whether podexecd records it.
func TestEveryReasonIsDocumented(t *testing.T) {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "k8s.io/kubernetes/pkg/kubelet/events").Output()
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "event.go"), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	reasons := 0
	ast.Inspect(parsed, func(n ast.Node) bool {
		value, ok := n.(*ast.BasicLit)
		if !ok {
			return true
		}
		reason, err := strconv.Unquote(value.Value)
		if err != nil {
			t.Error(err)
		}
		if reasons++; !strings.Contains(string(document), "| `"+reason+"`") && !strings.Contains(string(document), ", `"+reason+"`") {
			t.Errorf("%s isn't in docs/events.md", reason)
		}
		return true
	})
	if reasons < 50 {
		t.Errorf("only %d reasons are found", reasons)
	}
}
