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

// TestDeadMethods: no function that the daemons link may call any method by its name. One would make the linker keep all
// exported methods of all types: 10 MiB of both daemons' memory.
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
	for _, daemon := range []string{"podconfigd", "podexecd"} {
		if function := found[daemon]; function != "" {
			t.Errorf("%s links %s, which may call any method", daemon, function)
		}
	}
	// podctl prints with templates.
	if found["podctl"] == "" {
		t.Error("the templates of podctl aren't found")
	}
}
