package applied_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// TestTornStore: a store with any bytes changed, cut off or doubled has the stored documents, or is an error: never others, and
// never fewer. A write to it, if it opens, is stored in full or refused.
func TestTornStore(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "good")
	n := start(t, dir)
	n.next()
	n.mustPut(pod("a", "v1"), pod("b", "v2"), secret)
	n.mustPut(pod("c", "v3"))
	n.stop()
	good, err := os.ReadFile(filepath.Join(dir, storeFile))
	check(t, err)
	n = start(t, dir)
	want := n.next()
	n.stop()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // The test repeats itself.
	opened, refused := 0, 0
	for i := range 400 {
		torn := append([]byte(nil), good...)
		switch i % 4 {
		case 0:
			for range 1 + random.IntN(4) {
				torn[random.IntN(len(torn))] ^= byte(1 << random.IntN(8))
			}
		case 1:
			at := random.IntN(len(torn))
			clear(torn[at:min(len(torn), at+random.IntN(4096))])
		case 2:
			torn = torn[:random.IntN(len(torn))]
		case 3: // a page in place of another one
			pages := len(torn) / 4096
			copy(torn[random.IntN(pages)*4096:], torn[random.IntN(pages)*4096:][:4096])
		}
		dir := filepath.Join(root, strconv.Itoa(i))
		check(t, os.Mkdir(dir, 0o700))
		check(t, os.WriteFile(filepath.Join(dir, storeFile), torn, 0o600))
		n := start(t, dir)
		got := n.next()
		switch {
		case strings.HasPrefix(got, "error: "):
			refused++
			if err := n.put(pod("d", "v4")); err == nil {
				t.Errorf("case %d: a write to a store that is refused (%s) is taken", i, got)
			}
		case got != want:
			t.Errorf("case %d: the torn store has %q; want %q, or an error", i, got, want)
		default:
			opened++
			if err := n.put(pod("d", "v4")); err == nil {
				n.stop()
				n = start(t, dir)
				if got := n.next(); !strings.Contains(got, "default/d: v4") || !strings.Contains(got, "default/a: v1") {
					t.Errorf("case %d: after a write the store has %q", i, got)
				}
			}
		}
		n.stop()
	}
	if opened == 0 || refused == 0 {
		t.Errorf("%d stores open and %d are refused; want some of both", opened, refused)
	}
}

// TestLostDocument: a store that bbolt reads, and in which a document is missing, is there twice or is an older one, is damaged: its
// pods stay.
func TestLostDocument(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "good")
	n := start(t, dir)
	n.next()
	n.mustPut(pod("a", "v0"))
	older := copied(t, filepath.Join(dir, storeFile))
	n.mustPut(pod("a", "v1"), pod("b", "v1"))
	n.stop()
	good, err := os.ReadFile(filepath.Join(dir, storeFile))
	check(t, err)
	a, b := []byte("Pod\x00default\x00a"), []byte("Pod\x00default\x00b")
	for name, change := range map[string]func(*bbolt.Bucket) error{
		"":             func(*bbolt.Bucket) error { return nil },
		"missing":      func(docs *bbolt.Bucket) error { return docs.Delete(b) },
		"another's":    func(docs *bbolt.Bucket) error { return docs.Put(b, bytes.Clone(docs.Get(a))) },
		"an older one": func(docs *bbolt.Bucket) error { return docs.Put(a, older[string(a)]) },
		"one too many": func(docs *bbolt.Bucket) error {
			return docs.Put([]byte("Pod\x00default\x00c"), bytes.Clone(docs.Get(a)))
		},
		"without bytes": func(docs *bbolt.Bucket) error { return docs.Put(b, nil) },
	} {
		dir := filepath.Join(root, "bad "+name)
		check(t, os.Mkdir(dir, 0o700))
		path := filepath.Join(dir, storeFile)
		check(t, os.WriteFile(path, good, 0o600))
		db, err := bbolt.Open(path, 0o600, nil)
		check(t, err)
		check(t, db.Update(func(tx *bbolt.Tx) error { return change(tx.Bucket([]byte("documents"))) }))
		check(t, db.Close())
		n := start(t, dir)
		if got := n.next(); strings.HasPrefix(got, "error: ") == (name == "") {
			t.Errorf("%q: the set is %q; want an error only if a document was changed", name, got)
		}
		n.stop()
	}
}

// copied returns the values of the documents of a store that is in use.
func copied(t *testing.T, path string) map[string][]byte {
	t.Helper()
	data, err := os.ReadFile(path)
	check(t, err)
	path = filepath.Join(t.TempDir(), storeFile)
	check(t, os.WriteFile(path, data, 0o600))
	db, err := bbolt.Open(path, 0o600, nil)
	check(t, err)
	defer db.Close()
	out := map[string][]byte{}
	check(t, db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("documents")).ForEach(func(k, v []byte) error {
			out[string(k)] = bytes.Clone(v)
			return nil
		})
	}))
	return out
}
