package layout

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// maxPodctl is the maximum size of podctl in bytes: a little more than it has. `go tool nm -size -sort size` of a podctl with
// symbols shows what became large. Usually it is a new dependency, or a function that calls methods by their names (TestDeadMethods).
// The largest part that could be removed is client-go, for doctor and migrate, with 1.3 MB. 0.2 MB of it read the kubeconfig; the rest
// makes requests with any credentials, plugins included, which the nodes of clouds use. The CSIDrivers of manifests cost
// 0.15 MB: they bring the API package of storage. The volumes of static pods' claims cost 0.13 MB without any new package: 39 KB of
// instructions, 63 KB of their tables for stack traces, and 26 KB of messages' types and help texts.
const maxPodctl = 25_700_000

// TestMakeBuild: make build sets the version that a binary prints, leaves out its symbol table and DWARF, and podctl is small.
func TestMakeBuild(t *testing.T) {
	recipe := exec.Command("make", "--dry-run", "--no-print-directory", "build", "BINARIES=podctl", "VERSION=v9.8.7")
	recipe.Dir = "../.."
	commands, err := recipe.Output()
	if err != nil {
		t.Fatalf("make --dry-run build: %v", err)
	}
	bin := filepath.Join(t.TempDir(), "bin")
	build := exec.Command("bash", "-eu", "-c", strings.ReplaceAll(string(commands), " bin", " "+bin))
	build.Dir = "../.."
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", commands, err, output)
	}
	podctl := filepath.Join(bin, "podctl")
	output, err := exec.Command(podctl, "version", "--client").Output()
	if err != nil || !strings.HasPrefix(string(output), "podctl v9.8.7 (") {
		t.Errorf("podctl version prints %q, %v; want v9.8.7", output, err)
	}
	info, err := os.Stat(podctl)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("podctl has %d bytes", info.Size())
	if info.Size() > maxPodctl {
		t.Errorf("podctl has %d bytes; want at most %d", info.Size(), maxPodctl)
	}
	file, err := elf.Open(podctl)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, section := range []string{".symtab", ".debug_info", ".zdebug_info"} {
		if file.Section(section) != nil {
			t.Errorf("podctl has a section %s", section)
		}
	}
}
