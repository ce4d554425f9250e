package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// packed packs a source and returns the archive, and what was skipped.
func packed(t *testing.T, source string, o Options) (archive []byte, left []string) {
	t.Helper()
	o.Skipped = func(name, reason string) { left = append(left, name+" "+reason) }
	var b bytes.Buffer
	if err := Pack(&b, source, o); err != nil {
		t.Fatal(err)
	}
	slices.Sort(left)
	return b.Bytes(), left
}

// writeFile writes a file with a mode.
func writeFile(t *testing.T, content string, mode os.FileMode, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o600), os.Chmod(name, mode)); err != nil {
		t.Fatal(err)
	}
}

// What is packed is unpacked with the same contents and modes.
func TestPackAndUnpack(t *testing.T) {
	withUmask(t, 0)
	source, dest := t.TempDir(), filepath.Join(t.TempDir(), "back")
	writeFile(t, "A", 0o640, source, "a")
	writeFile(t, strings.Repeat("large", 100_000), 0o755, source, "sub", "program")
	writeFile(t, "", 0o400, source, "sub", "deeper", strings.Repeat("name", 60))
	writeFile(t, "Ü", 0o604, source, "Ümläut")
	if err := errors.Join(os.Mkdir(filepath.Join(source, "empty"), 0o711), os.Chmod(source, 0o750)); err != nil {
		t.Fatal(err)
	}
	data, left := packed(t, source, Options{Name: "d"})
	if o := unpackTo(bytes.NewReader(data), "d", standard, dest, "d"); o.err != nil || o.skipped != nil || left != nil {
		t.Errorf("%v, skipped %q and %q", o.err, left, o.skipped)
	}
	if diff := cmp.Diff(treeOf(t, source), treeOf(t, dest)); diff != "" {
		t.Errorf("files (-source +back):\n%s", diff)
	}
	if info, err := os.Stat(dest); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("the directory itself is %v, %v", info.Mode(), err)
	}
	data, _ = packed(t, filepath.Join(source, "a"), Options{Name: "other"})
	if o := unpackTo(bytes.NewReader(data), "other", standard, dest, "file"); o.err != nil || !exists(dest, "file") {
		t.Errorf("a file: %v", o.err)
	}
}

// Of links those to regular files below the source are packed, as files; nothing beside the source is.
func TestPackLinks(t *testing.T) {
	top := t.TempDir()
	source := filepath.Join(top, "source")
	writeFile(t, "A", 0o644, source, "sub", "a")
	writeFile(t, "secret", 0o600, top, "secret")
	for name, target := range map[string]string{
		"below": "sub/a", "sub/up": "../sub/a", "directory": "sub", "out": "../secret", "absolute": filepath.Join(top, "secret"), "none": "nothing",
		"loop": "loop", "chain": "below", "sneaky": "directory/../../secret",
	} {
		if err := os.Symlink(target, filepath.Join(source, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(source, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	data, left := packed(t, source, Options{Name: "d"})
	var names []string
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		content, readErr := io.ReadAll(r)
		if err != nil || readErr != nil {
			t.Fatal(err, readErr)
		}
		names = append(names, fmt.Sprintf("%s %c %s", h.Name, h.Typeflag, content))
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"d/ 5 ", "d/below 0 A", "d/chain 0 A", "d/sub/ 5 ", "d/sub/a 0 A", "d/sub/up 0 A"}, names); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	const out, other = " is a symbolic link to nothing below the source", " is a symbolic link to something else than a file"
	want := []string{"absolute" + out, "directory" + other, "fifo is neither a file nor a directory", "loop" + out, "none" + out, "out" + out, "sneaky" + out}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	// The user has named this one.
	data, _ = packed(t, filepath.Join(source, "out"), Options{Name: "d"})
	if !bytes.Contains(data, []byte("secret")) {
		t.Error("a link that is the source itself isn't followed")
	}
}

// Headers have numbers of users and no setuid bit; with NoPreserve root owns the files, and only root may write them.
func TestPackHeaders(t *testing.T) {
	source := t.TempDir()
	writeFile(t, "A", 0o777|os.ModeSetuid, source, "a")
	for noPreserve, want := range map[bool]string{false: fmt.Sprintf("a 777 %d", os.Geteuid()), true: "a 755 0"} {
		data, _ := packed(t, filepath.Join(source, "a"), Options{Name: "a", NoPreserve: noPreserve})
		h, err := tar.NewReader(bytes.NewReader(data)).Next()
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s %o %d%s%s", h.Name, h.Mode, h.Uid, h.Uname, h.Gname); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}

func TestPackFails(t *testing.T) {
	if err := Pack(io.Discard, filepath.Join(t.TempDir(), "none"), Options{Name: "d"}); err == nil {
		t.Error("a source that doesn't exist is packed")
	}
	source := t.TempDir()
	writeFile(t, "A", 0o600, source, "a")
	broken := errors.New("broken")
	if err := Pack(failing{broken}, source, Options{Name: "d"}); !errors.Is(err, broken) {
		t.Errorf("%v; want the writer's error", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
