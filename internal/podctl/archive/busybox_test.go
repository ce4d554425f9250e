package archive

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/podstream/podstream/internal/roottest"
	"golang.org/x/sys/unix"
)

// busyboxTar returns the command of busybox's tar, which most small images have.
func busyboxTar(t *testing.T, arguments ...string) *exec.Cmd {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		err = fmt.Errorf("%w; hack/deps.sh test installs busybox", err)
	}
	roottest.Able(t, err)
	return exec.CommandContext(t.Context(), busybox, append([]string{"tar"}, arguments...)...)
}

// longName is a name that doesn't fit into the header of an entry.
var longName = strings.Repeat("n", 200)

// archivedByBusybox returns busybox's archive of the directory d, as podexecd requests it.
func archivedByBusybox(t *testing.T, p place) []byte {
	t.Helper()
	archive, err := busyboxTar(t, "-c", "-f", "-", "-C", p.outside+"/.//.", "./d").Output()
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

// hostileTree makes a directory d with what a hostile container can put there.
func hostileTree(t *testing.T, p place) string {
	t.Helper()
	d := filepath.Join(p.outside, "d")
	deep := filepath.Join(d, longName, strings.Repeat("q", 120))
	for _, err := range []error{
		os.MkdirAll(deep, 0o755), os.WriteFile(filepath.Join(deep, "f"), []byte("deep"), 0o600),
		os.WriteFile(filepath.Join(d, "a"), []byte("A"), 0o644), os.Link(filepath.Join(d, "a"), filepath.Join(d, "hard")),
		os.WriteFile(filepath.Join(d, " -rf"), []byte("B"), 0o644), os.WriteFile(filepath.Join(d, "..x"), []byte("C"), 0o644),
		os.WriteFile(filepath.Join(d, "setuid"), []byte("D"), 0o644), os.Chmod(filepath.Join(d, "setuid"), 0o755|fs.ModeSetuid),
		os.Symlink(filepath.Join(p.outside, "secret"), filepath.Join(d, "link")), os.Symlink("..", filepath.Join(d, "up")),
		unix.Mkfifo(filepath.Join(d, "fifo"), 0o644), os.WriteFile(filepath.Join(d, "sparse"), nil, 0o644), os.Truncate(filepath.Join(d, "sparse"), 600<<10),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// Of a hostile directory that busybox's tar reads, regular files and directories arrive, without setuid. The bounds hold.
func TestBusyboxArchives(t *testing.T) {
	withUmask(t, 0o022)
	p := newPlace(t)
	d := hostileTree(t, p)
	archive := archivedByBusybox(t, p)
	o := unpackTo(bytes.NewReader(archive), "d", standard, filepath.Join(p.dest, "new"), "d")
	if o.err != nil {
		t.Fatal(o.err)
	}
	slices.Sort(o.skipped)
	// Which of both names the link has is the order of the directory.
	if len(o.skipped) != 4 || !o.says("is a hard link") || !o.says(`"./d/link" is a symbolic link`) || !o.says(`"./d/up" is a symbolic link`) || !o.says(`"./d/fifo" is a FIFO`) {
		t.Errorf("left out: %q", o.skipped)
	}
	got := treeOf(t, filepath.Join(p.dest, "new"))
	deep := filepath.Join(longName, strings.Repeat("q", 120))
	want := map[string]string{
		" -rf": "-rw-r--r-- B", "..x": "-rw-r--r-- C", "setuid": "-rwxr-xr-x D", "sparse": "-rw-r--r-- " + strings.Repeat("\x00", 600<<10),
		longName: "drwxr-xr-x", deep: "drwxr-xr-x", filepath.Join(deep, "f"): "-rw------- deep",
	}
	if a, hard := got["a"], got["hard"]; a+hard != "-rw-r--r-- A" {
		t.Errorf("of two names of a file there is %q, and %q", a, hard)
	}
	delete(got, "a")
	delete(got, "hard")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unpacked (-want +got):\n%s", diff)
	}
	for name, limits := range map[string]Limits{
		"more than 5 entries": {MaxEntries: 5, MaxBytes: standard.MaxBytes}, "more than 512000 bytes": {MaxEntries: standard.MaxEntries, MaxBytes: 500 << 10},
	} {
		if o := unpackTo(bytes.NewReader(archive), "d", limits, filepath.Join(p.dest, name), "d"); o.err == nil || !o.says(name) {
			t.Errorf("%s: %v", name, o.err)
		}
	}
	if err := os.WriteFile(filepath.Join(d, "\x1b]0;pwned\a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if o := unpackTo(bytes.NewReader(archivedByBusybox(t, p)), "d", standard, filepath.Join(p.dest, "control"), "d"); o.err == nil || !o.says("control characters") {
		t.Errorf("a name with control characters: %v", o.err)
	}
}

// Busybox's tar extracts what podctl packs, long names and modes included.
func TestBusyboxExtracts(t *testing.T) {
	withUmask(t, 0o022)
	p := newPlace(t)
	source := filepath.Join(p.outside, "d")
	writeFile(t, "A", 0o640, source, "a")
	writeFile(t, "deep", 0o755, source, longName, strings.Repeat("q", 120), "f")
	archive, left := packed(t, source, Options{Name: "d"})
	extract := busyboxTar(t, "-x", "-m", "-f", "-", "-C", p.dest+"/.//.")
	extract.Stdin = bytes.NewReader(archive)
	if said, err := extract.CombinedOutput(); err != nil || len(said) > 0 || len(left) > 0 {
		t.Fatalf("%v, %q, left out %q", err, said, left)
	}
	if diff := cmp.Diff(treeOf(t, source), treeOf(t, filepath.Join(p.dest, "d"))); diff != "" {
		t.Errorf("extracted (-want +got):\n%s", diff)
	}
}
