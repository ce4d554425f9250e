package mounttable

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// TestSelectFile: paths are decoded, only blanks separate fields, and a quoted option has commas.
func TestSelectFile(t *testing.T) {
	table := filepath.Join(t.TempDir(), "mountinfo")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(table, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("21 21 8:1 / / rw,relatime shared:1 master:2 - ext4 /dev/a rw,seclabel\n" +
		`22 21 0:9 /a\040b /m\011\012\134040 ro,nosuid - nfs4 s:/x\040y rw,context="u:r:t:s0:c1,c2",hard` + "\n" +
		"23 21 0:9 /a\u00a0b\r /m\u0085 rw - fuse  rw\n")
	got, err := SelectFile(table, All)
	if err != nil {
		t.Fatal(err)
	}
	want := []Mount{
		{21, 21, 8, 1, "/", "/", "ext4", "/dev/a", []string{"rw", "relatime"}, []string{"rw", "seclabel"}, false},
		{22, 21, 0, 9, "/a b", "/m\t\n\\040", "nfs4", "s:/x y", []string{"ro", "nosuid"}, []string{"rw", `context="u:r:t:s0:c1,c2"`, "hard"}, false},
		{23, 21, 0, 9, "/a\u00a0b\r", "/m\u0085", "fuse", "", []string{"rw"}, []string{"rw"}, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// No line is an error, nor does it change another one. What isn't a mount's is left out.
	for odd, count := range map[string]int{
		"21 1 8:1 / / rw\n": 1, `21 1 8:1 / /\9 rw - ext4 a rw` + "\n": 1, "21 1 8:1 / / rw ext4 a b c d\n": 1, "21 1 8:1 / / rw - ext4 a b - c d": 1,
		"b=c 1 8:1 / / rw - ext4 a b\n": 0, "21 1 8:1 /\n": 0, "\n\n": 0, strings.Repeat("1", 100_000) + " 1 8:1 / / rw - ext4 a b\n": 0,
	} {
		write("19 1 8:1 / / rw - xfs a rw\n" + odd)
		got, err := SelectFile(table, All)
		if err != nil || len(got) != 1+count || got[0].Type != "xfs" {
			t.Errorf("%.99q: %v, %v", odd, got, err)
		}
	}
	for _, bad := range []string{"", "a text\n"} {
		write(bad)
		if got, err := SelectFile(table, All); !errors.Is(err, ErrNoMounts) {
			t.Errorf("%q: %v, %v; want an error", bad, got, err)
		}
	}
	if _, err := SelectFile(table+"-missing", All); err == nil {
		t.Error("a table that is missing is no error")
	}
}

// TestRead: the kernel's own table has what is mounted, whatever its name.
func TestRead(t *testing.T) {
	roottest.Need(t, "mounting")
	root := t.TempDir()
	for _, name := range []string{"a b\tc\nd\\e", "no\u00a0break", "return\r", "next\u0085line", `\040`, "#"} {
		at, from := filepath.Join(root, name), filepath.Join(root, name+" from")
		for _, dir := range []string{at, from} {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		roottest.Able(t, unix.Mount(from, at, "", unix.MS_BIND, ""))
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
		mounts, err := Read()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(mounts, func(m Mount) bool {
			return m.Point == at && filepath.Base(m.Root) == name+" from"
		}) {
			t.Errorf("the table has no mount at %q", at)
		}
	}
}
