package payload_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/execsvc/setup/volume/payload"
)

func TestCleanPath(t *testing.T) {
	name := strings.Repeat("n", 255)
	for path, want := range map[string]string{
		"a": "a", "a/b": "a/b", "./a//b/": "a/b", "a..b": "a..b", "a/..b": "a/..b", ".hidden": ".hidden", "…/ключ": "…/ключ",
		name + "/" + name: name + "/" + name,
	} {
		if got, err := payload.CleanPath(path); got != want || err != nil {
			t.Errorf("CleanPath(%q) is %q, %v; want %q", path, got, err, want)
		}
	}
	for path, want := range map[string]string{
		"":                               "must not be empty",
		"/etc/passwd":                    `path "/etc/passwd" must be relative`,
		"..":                             `path ".." must not contain ".."`,
		"a/../b":                         `path "a/../b" must not contain ".."`,
		"..data":                         `path "..data" must not begin with ".."`,
		"./..data/x":                     `path "./..data/x" must not begin with ".."`,
		".":                              `path "." must name a file`,
		"./":                             `path "./" must name a file`,
		"a\x00b":                         `path "a\x00b" must not contain a zero byte`,
		"a/" + name + "n":                "names of 255 bytes at most",
		strings.Repeat("a/", 2048) + "a": "4096 bytes at most",
	} {
		_, err := payload.CleanPath(path)
		checkError(t, err, want)
	}
}

// FuzzCleanPath: an accepted path stays below the volume, isn't reserved, and is clean.
func FuzzCleanPath(f *testing.F) {
	for _, path := range []string{"a/b", "./..x", "a/./../..", "//", "a/\x00", "..", ".../x", "\xff/ü"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		clean, err := payload.CleanPath(path)
		if err != nil {
			return
		}
		if !filepath.IsLocal(clean) || strings.HasPrefix(clean, "..") || clean == "." {
			t.Errorf("CleanPath(%q) is %q", path, clean)
		}
		if again, err := payload.CleanPath(clean); again != clean || err != nil {
			t.Errorf("CleanPath(%q) is %q, of which CleanPath is %q, %v", path, clean, again, err)
		}
	})
}
