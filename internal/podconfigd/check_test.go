package podconfigd

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

var columns = regexp.MustCompile(` {2,}`)

// TestCheckConfig runs the cases in testdata/check: `file PATH` writes a file into a directory that the outputs call
// DIR, and `check-config [ARG…]` shows podconfigd's output for it, and its exit code.
func TestCheckConfig(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	datadriven.Walk(t, "testdata/check", func(t *testing.T, path string) {
		dir := t.TempDir()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "file":
				file := filepath.Join(dir, d.CmdArgs[0].Key)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(strings.ReplaceAll(d.Input, "DIR", dir)), 0o600); err != nil {
					t.Fatal(err)
				}
				return ""
			case "check-config":
				args := []string{"--check-config", "--hostname-override=node"}
				for line := range strings.Lines(d.Input) {
					args = append(args, strings.ReplaceAll(strings.TrimSpace(line), "DIR", dir))
				}
				var stdout, stderr bytes.Buffer
				code := Program().Run(t.Context(), args, &stdout, &stderr)
				// The width of the columns follows from that of the directory's name.
				out := columns.ReplaceAllString(strings.ReplaceAll(stdout.String()+stderr.String(), dir, "DIR"), "  ")
				if (code == 0) != (stderr.Len() == 0) || (code == 0) == (stdout.Len() == 0) {
					t.Errorf("exit code %d with the outputs %q and %q; want one of them only, as the code says", code, &stdout, &stderr)
				}
				if strings.Contains(out, "secret") {
					t.Errorf("a secret is shown:\n%s", out)
				}
				return out + map[int]string{0: "exit 0\n", 2: "exit 2\n"}[code]
			default:
				t.Fatalf("there is no command %s", d.Cmd)
				return ""
			}
		})
	})
}
