package atomicdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/volume/payload"
	"github.com/podstream/podstream/internal/roottest"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	for _, files := range []map[string]payload.File{
		text("a", "1", "sub/b", "2", "sub/deep/c", "3"),
		text("a", "1", "sub/b", "2", "other", ""),
		text("a/was", "a file", "other", ""),
		text(),
		text("ключ ☃", "ü", "with\nnewline", "x", "-rf", "y", ".a..", "z"),
	} {
		mustWrite(t, dir, files, nil, true)
		checkContent(t, dir, files)
		before := fingerprint(t, dir)
		mustWrite(t, dir, files, nil, false)
		if after := fingerprint(t, dir); after != before {
			t.Errorf("the same content was written:\n%s\nbefore:\n%s", after, before)
		}
	}
}

// TestWriteExactly: modes and owners are exact, whatever the umask and the directory's setgid bit.
func TestWriteExactly(t *testing.T) {
	roottest.Need(t, "chown")
	defer unix.Umask(unix.Umask(0o077))
	dir := t.TempDir()
	if err := os.Chown(dir, 0, 77); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, os.ModeSetgid|0o777); err != nil {
		t.Fatal(err)
	}
	files := map[string]payload.File{
		"open":       {Mode: 0o666},
		"none":       {Mode: 0, Data: []byte("x")},
		"sub/script": {Mode: 0o755},
		"token":      {Mode: 0o600, UID: ptr.To[int64](1000)},
	}
	for _, c := range []struct {
		name    string
		fsGroup *int64
		want    map[string]string
	}{
		{"no fsGroup", nil, map[string]string{
			".": "0755 0:0", "./open": "0666 0:0", "./none": "0000 0:0", "./sub": "0755 0:0", "./sub/script": "0755 0:0",
			"./token": "0600 1000:0",
		}},
		{"an fsGroup", ptr.To[int64](5000), map[string]string{
			".": "2755 0:5000", "./open": "0666 0:5000", "./none": "0440 0:5000", "./sub": "2755 0:5000", "./sub/script": "0755 0:5000",
			"./token": "0640 1000:5000",
		}},
	} {
		mustWrite(t, dir, files, c.fsGroup, true)
		if diff := cmp.Diff(c.want, attributes(t, dir)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		mustWrite(t, dir, files, c.fsGroup, false)
	}
}

// TestChangesOfOneThing: any difference in a file produces a new content.
func TestChangesOfOneThing(t *testing.T) {
	roottest.Need(t, "chown")
	const path = "sub/a"
	file := payload.File{Data: []byte("data"), Mode: 0o644}
	for name, other := range map[string]payload.File{
		"data of the same length": {Data: []byte("DATA"), Mode: 0o644},
		"less data":               {Data: []byte("dat"), Mode: 0o644},
		"mode":                    {Data: file.Data, Mode: 0o600},
		"owner":                   {Data: file.Data, Mode: 0o644, UID: ptr.To[int64](1)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range []payload.File{file, other, file} {
				mustWrite(t, dir, map[string]payload.File{path: f}, nil, true)
				checkContent(t, dir, map[string]payload.File{path: f})
			}
		})
	}
}

// TestRejectedFiles: invalid files change nothing, and the error names them.
func TestRejectedFiles(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]payload.File
		want  string
	}{
		"a path that leads out":      {text("../x", ""), `path "../x" must not contain ".."`},
		"a name of the package's":    {text("..data/x", ""), `path "..data/x" must not begin with ".."`},
		"a file that is a directory": {text("a", "", "a/b", ""), `path "a`},
		"one path twice":             {text("a", "", "./a", ""), "is used by another file"},
		"setuid":                     {map[string]payload.File{"a": {Mode: 0o4755}}, `path "a": mode 04755`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			good := text("a", "good")
			mustWrite(t, dir, good, nil, true)
			changed, err := Write(dir, c.files, nil)
			if err == nil || changed || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Write is %v, %v; want an error with %q", changed, err, c.want)
			}
			checkContent(t, dir, good)
		})
	}
}

func TestNoDirectory(t *testing.T) {
	if _, err := Write(filepath.Join(t.TempDir(), "none"), text("a", ""), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the error is %v, want one that says that the directory doesn't exist", err)
	}
}

func TestMuch(t *testing.T) {
	files := map[string]payload.File{}
	for i := range 1000 {
		files[fmt.Sprintf("key-%04d", i)] = payload.File{Data: []byte(strings.Repeat("x", i)), Mode: 0o644}
	}
	name := strings.Repeat("n", 255)
	files["large"] = payload.File{Data: make([]byte, 1<<20), Mode: 0o600}
	files[strings.Repeat("d/", 2047)+"e"] = payload.File{Data: []byte("deep"), Mode: 0o644}
	files[strings.Repeat(name+"/", 15)+name] = payload.File{Data: []byte("long"), Mode: 0o644}
	dir := t.TempDir()
	mustWrite(t, dir, files, nil, true)
	mustWrite(t, dir, files, nil, false)
	delete(files, "key-0999")
	mustWrite(t, dir, files, nil, true)
	// filepath.WalkDir can't go as deep.
	short := text("a", "b")
	mustWrite(t, dir, short, nil, true)
	checkContent(t, dir, short)
}
