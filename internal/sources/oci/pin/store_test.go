package pin

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/sources/oci/ocitest"
	"github.com/podstream/podstream/internal/sources/oci/signature"
)

// partsOf returns texts by their digests.
func partsOf(texts ...string) map[string][]byte {
	parts := map[string][]byte{}
	for _, text := range texts {
		parts[ocitest.Digest([]byte(text))] = []byte(text)
	}
	return parts
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestSave: an artifact replaces the one before, and is there after a restart. Only its owner can read it.
func TestSave(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "oci", "oci")
	s := New(dir)
	if p, err := s.Load(); p != nil || err != nil {
		t.Errorf("at first there is %v, %v", p, err)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, texts := range [][]string{{"manifest 1", "layer", "only in 1"}, {"manifest 2", "layer"}, {"manifest 2", "layer"}} {
		p := Pin{Reference: "a.example/b:c", Digest: ocitest.Digest([]byte(texts[0])), Time: now, Evidence: &signature.Evidence{Payload: []byte("p"), Signature: "s"}}
		if err := s.Save(p, partsOf(texts...)); err != nil {
			t.Fatal(err)
		}
		s = New(dir)
		got, err := s.Load()
		if err != nil || got.Digest != p.Digest || got.Reference != p.Reference || !got.Time.Equal(now) || string(got.Evidence.Payload) != "p" {
			t.Errorf("the pin is %+v, %v; want %+v", got, err, p)
		}
		for digest, want := range partsOf(texts...) {
			if data, err := s.Blob(digest); err != nil || string(data) != string(want) {
				t.Errorf("part %s is %q, %v; want %q", digest, data, err, want)
			}
		}
		if got := files(t, filepath.Join(dir, blobsDir)); len(got) != len(texts) {
			t.Errorf("there are %q; want %d parts", got, len(texts))
		}
	}
	if _, err := s.Blob(ocitest.Digest([]byte("only in 1"))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a part of the artifact before: %v", err)
	}
	err := filepath.WalkDir(filepath.Dir(dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestDamage: what isn't as it was stored is an error, and is replaced by the next Save.
func TestDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "oci", "oci")
	s, parts := New(dir), partsOf("manifest", "layer")
	digests := slices.Sorted(maps.Keys(parts))
	p := Pin{Reference: "r", Digest: digests[0]}
	save := func() {
		t.Helper()
		if err := s.Save(p, parts); err != nil {
			t.Fatal(err)
		}
	}
	save()
	blob := filepath.Join(dir, blobsDir, fileOf(digests[0]))
	outside := filepath.Join(t.TempDir(), "outside")
	for name, damage := range map[string]func() error{
		"changed": func() error { return os.WriteFile(blob, []byte("other"), 0o600) },
		"cut":     func() error { return os.Truncate(blob, 2) },
		"gone":    func() error { return os.Remove(blob) },
		"a link": func() error {
			return errors.Join(os.WriteFile(outside, parts[digests[0]], 0o600), os.Remove(blob), os.Symlink(outside, blob))
		},
		"a directory": func() error { return errors.Join(os.Remove(blob), os.Mkdir(blob, 0o700)) },
		"too large":   func() error { return os.Truncate(blob, MaxBlob+1) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if data, err := s.Blob(digests[0]); err == nil {
			t.Errorf("%s: the part is %q", name, data)
		}
		if name == "a directory" {
			if err := os.Remove(blob); err != nil {
				t.Fatal(err)
			}
		}
		save()
		if data, err := s.Blob(digests[0]); err != nil || string(data) != string(parts[digests[0]]) {
			t.Errorf("%s: after the next Save: %q, %v", name, data, err)
		}
	}
	for name, read := range map[string]func() error{
		pinFile:    func() error { _, err := s.Load(); return err },
		newestFile: func() error { _, err := s.Newest(); return err },
	} {
		for _, text := range []string{"", "{", "{}", `{"reference":"r","digest":"../../../etc/shadow","created":"2026-01-02T03:04:05Z"}`, strings.Repeat(" ", maxFile+1)} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := read(); err == nil {
				t.Errorf("%s with %.60q: no error", name, text)
			}
		}
	}
	for _, digest := range []string{"", "sha256:..", "sha256:" + strings.Repeat("../", 21) + "a"} {
		if _, err := s.Blob(digest); err == nil {
			t.Errorf("there is a part %q", digest)
		}
	}
}

// TestLeftovers: what an interrupted writer left is removed.
func TestLeftovers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "oci", "oci")
	s, parts := New(dir), partsOf("manifest")
	p := Pin{Reference: "r", Digest: ocitest.Digest([]byte("manifest"))}
	for range 2 {
		if err := s.Save(p, parts); err != nil {
			t.Fatal(err)
		}
		if got := files(t, filepath.Join(dir, blobsDir)); len(got) != 1 {
			t.Errorf("there are %q", got)
		}
		for _, name := range []string{".sha256-123", fileOf(ocitest.Digest([]byte("other"))), "sha512-" + p.Digest[7:]} {
			if err := os.WriteFile(filepath.Join(dir, blobsDir, name), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestNewest: the newest artifact is there after a restart.
func TestNewest(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "oci", "oci")
	if n, err := New(dir).Newest(); n != nil || err != nil {
		t.Errorf("at first there is %v, %v", n, err)
	}
	want := Newest{Reference: "r", Digest: ocitest.Digest(nil), Created: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)}
	if err := New(dir).SetNewest(want); err != nil {
		t.Fatal(err)
	}
	if n, err := New(dir).Newest(); err != nil || n.Reference != "r" || n.Digest != want.Digest || !n.Created.Equal(want.Created) {
		t.Errorf("the newest is %+v, %v; want %+v", n, err, want)
	}
}

// TestUnwritable: a directory that can't be written is an error.
func TestUnwritable(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "oci"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := New(filepath.Join(root, "oci", "oci"))
	if err := s.Save(Pin{}, nil); err == nil {
		t.Error("Save: no error")
	}
	if err := s.SetNewest(Newest{}); err == nil {
		t.Error("SetNewest: no error")
	}
}
