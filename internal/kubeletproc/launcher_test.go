package kubeletproc

import (
	"debug/buildinfo"
	"os"
	"path/filepath"
	"testing"
)

// TestHasPath: hasPath finds what debug/buildinfo finds, and nothing in files that are no Go programs, or are cut.
func TestHasPath(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if !hasPath(program, info.Path) || hasPath(program, launcherPath) || hasPath(program, info.Path[1:]) {
		t.Errorf("the path of the test's program isn't %s", info.Path)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"empty": nil, "text": []byte("path\t" + info.Path + "\n"), "header": data[:64], "half": data[:len(data)/2], "magic": data[:4],
		"class": append([]byte("\x7fELF\x01"), data[5:]...),
	} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if hasPath(file, info.Path) {
			t.Errorf("%s: the path is found", name)
		}
	}
	if hasPath(filepath.Join(t.TempDir(), "none"), info.Path) {
		t.Error("the path is found in no file")
	}
}
