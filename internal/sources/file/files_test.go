package file

import (
	"os"
	"path/filepath"
	"testing"
)

// write writes a file in place, as a shell's redirection does.
func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// place renames a file into place within its directory, as careful writers do.
func place(t testing.TB, path, content string) {
	t.Helper()
	temp := filepath.Join(filepath.Dir(path), ".tmp-"+filepath.Base(path))
	write(t, temp, content)
	rename(t, temp, path)
}

func rename(t testing.TB, from, to string) {
	t.Helper()
	must(t, os.Rename(from, to))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
