package atomicdir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podstream/podstream/internal/execsvc/setup/volume/payload"
)

// FuzzWrite: two files of any path are both written and readable by their paths, or nothing is; nothing appears
// outside of the volume.
func FuzzWrite(f *testing.F) {
	for _, paths := range [][2]string{
		{"a", "b/c"}, {"a", "a/b"}, {"../x", "a"}, {"..data", "..data_tmp"}, {"./..x", "x"}, {"\xff", "ü/☃"}, {"a/", "//a"},
	} {
		f.Add(paths[0], paths[1])
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "volume")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		files := text(first, "1", second, "2")
		_, err := Write(dir, files, nil)
		if diff := cmp.Diff(map[string]string{"volume": "a directory"}, listing(t, parent)); diff != "" {
			t.Fatalf("names beside the volume (-want +got):\n%s", diff)
		}
		if err != nil {
			if diff := cmp.Diff(map[string]string{}, listing(t, dir)); diff != "" {
				t.Errorf("Write has failed (%v), but has made (-want +got):\n%s", err, diff)
			}
			return
		}
		clean := map[string]payload.File{}
		for path, file := range files {
			at, err := payload.CleanPath(path)
			if err != nil {
				t.Fatalf("it was written, but %v", err)
			}
			clean[at] = file
		}
		checkContent(t, dir, clean)
		mustWrite(t, dir, files, nil, false)
	})
}
