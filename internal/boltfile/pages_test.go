package boltfile

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"
)

// boltFile is a bbolt file of small pages, after random puts and deletes. check gets it after each transaction.
func boltFile(t testing.TB, seed uint64, check func(db *bbolt.DB, file []byte)) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bolt")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: minPageSize, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var file []byte
	random := rand.New(rand.NewPCG(seed, 1))
	for range 30 {
		err := db.Update(func(tx *bbolt.Tx) error { return mutate(tx, random) })
		if err != nil {
			t.Fatal(err)
		}
		if file, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
		check(db, file)
	}
	return file
}

// mutate changes some keys of two buckets, one of them within the other, and of small buckets that stay inline.
func mutate(tx *bbolt.Tx, random *rand.Rand) error {
	for range random.IntN(20) {
		b, err := tx.CreateBucketIfNotExists(fmt.Appendf(nil, "bucket%d", random.IntN(3)))
		if err == nil && random.IntN(3) == 0 {
			b, err = b.CreateBucketIfNotExists([]byte("nested"))
		}
		if err != nil {
			return err
		}
		key := fmt.Appendf(nil, "key%d", random.IntN(200))
		if random.IntN(4) == 0 {
			err = b.Delete(key)
		} else {
			err = b.Put(key, make([]byte, random.IntN(3)*random.IntN(1500)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// boltCheck is bbolt's own check.
func boltCheck(db *bbolt.DB) error {
	return db.View(func(tx *bbolt.Tx) error {
		var first error
		for err := range tx.Check() {
			if first == nil {
				first = err
			}
		}
		return first
	})
}

// TestCheckPagesAcceptsBoltFiles: if bbolt changes its format, this fails, rather than every store being set
// aside.
func TestCheckPagesAcceptsBoltFiles(t *testing.T) {
	for seed := range uint64(20) {
		boltFile(t, seed, func(db *bbolt.DB, file []byte) {
			if err := boltCheck(db); err != nil {
				t.Fatalf("seed %d: bbolt finds its own file damaged: %v", seed, err)
			}
			if err := checkPages(bytes.NewReader(file), int64(len(file))); err != nil {
				t.Fatalf("seed %d: checkPages finds the file damaged: %v", seed, err)
			}
		})
	}
}

// TestCheckPagesAcceptsAFullFreeList: a list of more than 65534 pages has its length in another place.
func TestCheckPagesAcceptsAFullFreeList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bolt")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: minPageSize, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, f := range []func(tx *bbolt.Tx) error{
		func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucket([]byte("large"))
			if err != nil {
				return err
			}
			return b.Put([]byte("key"), make([]byte, 70_000*minPageSize))
		},
		func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("large")) },
	} {
		if err := db.Update(f); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := checkPages(file, info.Size()); err != nil {
		t.Errorf("checkPages finds the file damaged: %v", err)
	}
}

// TestCheckPagesRefuses damages a good file in one way each, such that a checksum of a record wouldn't detect it.
func TestCheckPagesRefuses(t *testing.T) {
	good := boltFile(t, 1, func(*bbolt.DB, []byte) {})
	for _, tc := range []struct {
		name   string
		damage func(file []byte)
	}{
		{"the checksum of the first meta page", func(file []byte) { file[pageHeaderSize+metaSize-1]++ }},
		{"the checksum of the second meta page", func(file []byte) { file[minPageSize+pageHeaderSize+metaSize-1]++ }},
		{"the id of a meta page", func(file []byte) { file[0]++ }},
		{"a page less in the free list", func(file []byte) { add16(page(t, file, freePage)[10:], -1) }},
		{"a page more in the free list", func(file []byte) { add16(page(t, file, freePage)[10:], 1) }},
		{"a free list longer than its page", func(file []byte) { add16(page(t, file, freePage)[10:], 1000) }},
		{"another page in the free list", func(file []byte) { add16(page(t, file, freePage)[pageHeaderSize:], 1) }},
		{"a leaf of another type", func(file []byte) { page(t, file, leafPage)[8] = freePage }},
		{"a leaf with another id", func(file []byte) { page(t, file, leafPage)[0]++ }},
		{"a leaf with too many elements", func(file []byte) { add16(page(t, file, leafPage)[10:], 1000) }},
		{"a leaf that goes on beyond the end", func(file []byte) { add16(page(t, file, leafPage)[14:], 1) }},
		{"a key without bytes", func(file []byte) { order.PutUint32(page(t, file, leafPage)[pageHeaderSize+8:], 0) }},
		{"a value beyond its page", func(file []byte) { order.PutUint32(page(t, file, leafPage)[pageHeaderSize+12:], 1<<30) }},
		{"a key that is out of order", func(file []byte) {
			leaf := page(t, file, leafPage)
			leaf[pageHeaderSize+int(order.Uint32(leaf[pageHeaderSize+4:]))] = 0xFF
		}},
		{"a branch without elements", func(file []byte) { order.PutUint16(page(t, file, branchPage)[10:], 0) }},
		{"a branch that leads to itself", func(file []byte) {
			branch := page(t, file, branchPage)
			copy(branch[pageHeaderSize+8:], branch[:8])
		}},
	} {
		file := bytes.Clone(good)
		tc.damage(file)
		if bytes.Equal(file, good) {
			t.Fatalf("%s: the file isn't damaged", tc.name)
		}
		if err := checkPages(bytes.NewReader(file), int64(len(file))); err == nil {
			t.Errorf("%s: checkPages finds nothing wrong", tc.name)
		}
	}
}

// page is the last page of a type that is in use, with two elements at least if it is of a tree.
func page(t *testing.T, file []byte, flags uint16) []byte {
	t.Helper()
	w := &walk{file: bytes.NewReader(file), pageSize: minPageSize}
	first, err0 := readMeta(w.file, 0, 0)
	second, err1 := readMeta(w.file, 1, minPageSize)
	if err := errors.Join(err0, err1); err != nil {
		t.Fatal(err)
	}
	if first.txid > second.txid {
		second = first
	}
	w.uses = make([]pageUse, second.pages)
	if err := errors.Join(w.freelist(second.freelist), w.tree(second.root, nil, nil, 0)); err != nil {
		t.Fatal(err)
	}
	for id := len(w.uses) - 1; id >= 0; id-- {
		p := file[id*minPageSize:]
		if w.uses[id] == used && order.Uint64(p) == uint64(id) && order.Uint16(p[8:]) == flags && order.Uint16(p[10:]) > 1 {
			return p
		}
	}
	t.Fatalf("the file has no page of type %#x in use", flags)
	return nil
}

func add16(b []byte, n int) { order.PutUint16(b, order.Uint16(b)+uint16(n)) }

// FuzzCheckPages: a file that passes is safe for bbolt. bbolt's own check passes too, and it can write to the file.
func FuzzCheckPages(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(boltFile(f, seed, func(*bbolt.DB, []byte) {}), uint32(0), uint32(0))
	}
	f.Add([]byte{}, uint32(0), uint32(0))
	f.Fuzz(func(t *testing.T, file []byte, at, bits uint32) {
		file = bytes.Clone(file)
		if len(file) > 4 {
			i := int(at) % (len(file) - 4)
			order.PutUint32(file[i:], order.Uint32(file[i:])^bits)
		}
		if checkPages(bytes.NewReader(file), int64(len(file))) != nil {
			return
		}
		path := filepath.Join(t.TempDir(), "bolt")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true})
		if err != nil {
			t.Fatalf("bbolt doesn't open what checkPages found good: %v", err)
		}
		defer func() { _ = db.Close() }()
		if err := boltCheck(db); err != nil {
			t.Fatalf("bbolt finds fault with what checkPages found good: %v", err)
		}
		random := rand.New(rand.NewPCG(1, 1))
		for range 5 {
			// What is in the file may not be what mutate expects: a key in the place of a bucket.
			_ = db.Update(func(tx *bbolt.Tx) error { return mutate(tx, random) })
		}
		if err := boltCheck(db); err != nil {
			t.Fatalf("after a few transactions bbolt finds fault with what checkPages found good: %v", err)
		}
	})
}
