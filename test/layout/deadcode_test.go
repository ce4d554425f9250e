package layout

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// reflecting is a function in the linker's list of dependencies that may call a method whose name isn't constant.
var reflecting = regexp.MustCompile(`(?m)^(?:.* -> )?(\S+) <ReflectMethod>`)

// TestDeadMethods: no function that the programs link may call any method by its name. One would make the linker keep all
// exported methods of all types: 10 MiB of both daemons' memory, and 5 MB of podctl's file.
func TestDeadMethods(t *testing.T) {
	recipe := exec.Command("make", "--dry-run", "--no-print-directory", "build")
	recipe.Dir = "../.."
	commands, err := recipe.Output()
	if err != nil {
		t.Fatalf("make --dry-run build: %v", err)
	}
	text := strings.ReplaceAll(string(commands), " bin", " "+filepath.Join(t.TempDir(), "bin"))
	build := exec.Command("bash", "-eu", "-c", strings.ReplaceAll(text, "-ldflags '", "-ldflags '-dumpdep "))
	build.Dir = "../.."
	output, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	found := map[string]string{}
	for _, program := range strings.Split(string(output), "# "+module+"cmd/") {
		name, list, _ := strings.Cut(program, "\n")
		if first := reflecting.FindStringSubmatch(list); first != nil {
			found[name] = first[1]
		}
	}
	for _, name := range []string{"podconfigd", "podexecd", "podctl"} {
		if function := found[name]; function != "" {
			t.Errorf("%s links %s, which may call any method", name, function)
		}
	}
}

// TestReflectingIsFound: the linker's list shows a program that prints with templates.
func TestReflectingIsFound(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	err := os.WriteFile(source, []byte("package main\n\nimport (\n\t\"os\"\n\t\"text/template\"\n)\n\n"+
		"func main() { _ = template.Must(template.New(\"\").Parse(os.Args[1])).Execute(os.Stdout, nil) }\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	output, err := exec.Command("go", "build", "-ldflags=-dumpdep", "-o", filepath.Join(dir, "main"), source).CombinedOutput()
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	if !reflecting.Match(output) {
		t.Error("the templates of the program aren't found")
	}
}
