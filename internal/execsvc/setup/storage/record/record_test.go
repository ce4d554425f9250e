package record

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/disktest"
)

func open(t *testing.T, path, agent string) *Dir {
	t.Helper()
	d, err := Open(path, agent)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func load(t *testing.T, d *Dir) ([]Volume, []Kept) {
	t.Helper()
	volumes, kept, err := d.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return volumes, kept
}

func sample(handle string) Volume {
	return Volume{
		Version: Version, Agent: "a", Boot: "b", Key: Key{"csi.example.com", handle},
		Traits: Traits{Backend: "csi", Stages: true, Attaches: true, UniqueName: "kubernetes.io/csi/csi.example.com^" + handle},
		Use:    InUse, Attached: true, Context: map[string]string{"device": "/dev/x"},
		Stage: Call{Phase: Done, Args: `{"a": "<b>"}`},
		Publications: []Publication{{
			Target: Target{"u1", "kubernetes.io/csi", "pv"}, Call: Call{Phase: Unsure, Pending: true, Args: " {} "},
			Volumes: []string{"data"}, Dir: "/pods/u1/volumes/kubernetes.io~csi/pv",
		}},
	}
}

// TestRoundTrip: a record is read back as it was written, its arguments byte by byte; or it isn't written.
func TestRoundTrip(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "volumes"), "a")
	phases := rapid.SampledFrom([]Phase{Unsure, Undoing})
	rapid.Check(t, func(r *rapid.T) {
		v := sample(rapid.StringN(1, 20, 60).Draw(r, "handle"))
		v.Stage = Call{Phase: phases.Draw(r, "stage"), Args: rapid.String().Draw(r, "args")}
		v.Stage.Reusable = v.Stage.Phase == Undoing && rapid.Bool().Draw(r, "reusable")
		v.Context = rapid.MapOf(rapid.String(), rapid.String()).Draw(r, "context")
		if len(v.Context) == 0 {
			v.Context = nil
		}
		v.Publications[0].Phase, v.Publications[0].Args = phases.Draw(r, "phase"), rapid.String().Draw(r, "arguments")
		if err := d.Write(&v); err != nil {
			r.Fatal(err)
		}
		volumes, kept, err := d.Load(context.Background())
		if err != nil || len(kept) != 0 {
			r.Fatal(kept, err)
		}
		if diff := cmp.Diff([]Volume{v}, volumes); diff != "" {
			r.Fatal(diff)
		}
		if err := d.Remove(v.Key); err != nil {
			r.Fatal(err)
		}
	})
	for _, bad := range []string{"\xff", "a\xc0b"} {
		v := sample("h")
		v.Stage.Args = bad
		if err := d.Write(&v); err == nil {
			t.Errorf("arguments %q, which JSON can't hold, are written", bad)
		}
	}
	if volumes, kept := load(t, d); len(volumes)+len(kept) != 0 {
		t.Errorf("there are %v, %v after all were removed", volumes, kept)
	}
}

// TestPrivate: only podexecd's user can read the records.
func TestPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "volumes")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	d, v := open(t, dir, "a"), sample("h")
	if err := d.Write(&v); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, v.fileName()): 0o600} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v (%v), want %v", path, info.Mode(), err, want)
		}
	}
}

// TestDamagedIsKept: a damaged record, and one of another agent, are reported, and neither removed nor overwritten.
func TestDamagedIsKept(t *testing.T) {
	good := sample("h")
	content, err := Marshal(&good)
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	for name, bad := range map[string]string{
		"empty":          "",
		"cut off":        text[:len(text)-5],
		"two records":    text + text,
		"null":           "null",
		"other handle":   strings.Replace(text, `"handle":"h"`, `"handle":"i"`, 1),
		"newer version":  strings.Replace(text, `"version":1`, `"version":2`, 1),
		"unknown phase":  strings.Replace(text, `"phase":"done"`, `"phase":"gone"`, 1),
		"unknown use":    strings.Replace(text, `"use":"in-use"`, `"use":"maybe"`, 1),
		"two pending":    strings.Replace(text, `"stage":{"phase":"done"`, `"stage":{"phase":"unsure","pending":true`, 1),
		"reusable":       strings.Replace(text, `"stage":{"phase":"done"`, `"stage":{"phase":"done","reusable":true`, 1),
		"no target":      strings.Replace(text, `"uid":"u1"`, `"uid":""`, 1),
		"another agent":  strings.Replace(text, `"agent":"a"`, `"agent":"z"`, 1),
		"larger than 16": text + strings.Repeat(" ", maxSize),
	} {
		t.Run(name, func(t *testing.T) {
			if bad == text {
				t.Fatal("the record isn't damaged")
			}
			dir := filepath.Join(t.TempDir(), "volumes")
			d := open(t, dir, "a")
			file := filepath.Join(dir, good.fileName())
			if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
				t.Fatal(err)
			}
			volumes, kept := load(t, d)
			if len(volumes) != 0 || len(kept) != 1 || kept[0].File != file || (kept[0].Err == nil) != (name == "another agent") {
				t.Fatalf("%v and %v are loaded, want %s kept", volumes, kept, file)
			}
			for what, err := range map[string]error{"Usable": d.Usable(good.Key), "Write": d.Write(&good), "Remove": d.Remove(good.Key)} {
				if !errors.Is(err, ErrKept) || !strings.Contains(err.Error(), file) {
					t.Errorf("%s: %v, want ErrKept with the file's name", what, err)
				}
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != bad {
				t.Errorf("the file was changed (%v)", err)
			}
			other := sample("other")
			if err := d.Write(&other); err != nil {
				t.Errorf("another volume can't be recorded: %v", err)
			}
		})
	}
}

// TestNotAFile: a link, a directory or a FIFO in place of a record is kept, and not followed or opened.
func TestNotAFile(t *testing.T) {
	v, base := sample("h"), t.TempDir()
	for name, plant := range map[string]func(path string) error{
		"link": func(path string) error {
			target := filepath.Join(base, "target")
			content, err := Marshal(&v)
			return errors.Join(err, os.WriteFile(target, content, 0o600), os.Symlink(target, path))
		},
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"fifo":      func(path string) error { return unix.Mkfifo(path, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "volumes")
			d := open(t, dir, "a")
			if err := plant(filepath.Join(dir, v.fileName())); err != nil {
				t.Fatal(err)
			}
			if volumes, kept := load(t, d); len(volumes) != 0 || len(kept) != 1 || kept[0].Err == nil {
				t.Errorf("%v and %v are loaded, want one kept", volumes, kept)
			}
		})
	}
}

// TestCrashDuringWrite: a draft is no record; its call wasn't made. The earlier record counts.
func TestCrashDuringWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "volumes")
	d, v := open(t, dir, "a"), sample("h")
	if err := d.Write(&v); err != nil {
		t.Fatal(err)
	}
	draft := filepath.Join(dir, strings.TrimSuffix(v.fileName(), suffix)+draftSuffix)
	if err := os.WriteFile(draft, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	volumes, kept := load(t, open(t, dir, "a"))
	if diff := cmp.Diff([]Volume{v}, volumes); diff != "" || len(kept) != 0 {
		t.Errorf("kept %v, %s", kept, diff)
	}
	if _, err := os.Lstat(draft); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the draft is still there: %v", err)
	}
}

// TestFullDisk: a record that doesn't fit is an error, leaves the earlier one, and no draft that takes space. A record
// can be removed on a full disk.
func TestFullDisk(t *testing.T) {
	dir := filepath.Join(disktest.Small(t), "volumes")
	d, v := open(t, dir, "a"), sample("h")
	if err := d.Write(&v); err != nil {
		t.Fatal(err)
	}
	free := disktest.FillUp(t, filepath.Dir(dir))
	more := v.Clone()
	more.Publications = append(more.Publications, Publication{
		Target: Target{types.UID("u2"), "kubernetes.io/csi", "pv"}, Call: Call{Phase: Unsure, Args: strings.Repeat("x", 1<<15)}, Dir: "/d",
	})
	if err := d.Write(&more); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("write on a full disk: %v, want ENOSPC", err)
	}
	if volumes, kept := load(t, open(t, dir, "a")); len(kept) != 0 || cmp.Diff([]Volume{v}, volumes) != "" {
		t.Errorf("after the failure there are %v and %v, want the earlier record", volumes, kept)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("there are %v (%v), want one file", entries, err)
	}
	if err := d.Remove(v.Key); err != nil {
		t.Error(err)
	}
	free()
	if err := d.Write(&more); err != nil {
		t.Errorf("write when there is space again: %v", err)
	}
}

// TestUnreadableDirectory: without its list, nothing is known.
func TestUnreadableDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "volumes")
	d := open(t, dir, "a")
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Load(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want that the directory can't be listed", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(link, "a"); err == nil {
		t.Error("a link is opened as the directory of records")
	}
}
