package foreign

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// TestMountsAt: the mounts at a path are found whatever its name is, and that of another mount keeps none from being found.
func TestMountsAt(t *testing.T) {
	roottest.Need(t, "mounting")
	root := t.TempDir()
	for _, name := range []string{"plain", "a b", `\040`, "no\u00a0break", "return\r"} {
		from, at := filepath.Join(root, "from "+name), filepath.Join(root, name)
		for _, dir := range []string{from, at} {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		roottest.Able(t, unix.Mount(from, at, "", unix.MS_BIND, ""))
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
		if got, err := mountsAt(at); err != nil || len(got) != 1 || filepath.Base(got[0].Root) != "from "+name {
			t.Errorf("%q: %+v, %v", name, got, err)
		}
		if got, err := mountsAt(at + "x"); err != nil || len(got) != 0 {
			t.Errorf("beside %q: %+v, %v", name, got, err)
		}
	}
}
