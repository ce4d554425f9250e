package layout

import (
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
	for _, program := range []string{"podconfigd", "podexecd", "podctl"} {
		if function := found[program]; function != "" {
			t.Errorf("%s links %s, which may call any method", program, function)
		}
	}
	const linked = "reflect.x -> y\ntext/template.(*state).evalField <ReflectMethod> -> reflect.Value.MethodByName\n"
	if found := reflecting.FindStringSubmatch(linked); found == nil || found[1] != "text/template.(*state).evalField" {
		t.Errorf("in a list with a template, %q is found", found)
	}
}
