package store_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/loop/store"
)

// sample returns the file of a store with records of every table, free pages and a pod that overflows its page; its
// state; and an earlier version of the file.
func sample(t testing.TB) (file []byte, state store.State, earlier []byte) {
	t.Helper()
	s := newSetting(t)
	st, _, stop := s.open(t)
	for n := range 24 {
		pod := newPod(fmt.Sprintf("u%02d", n), "file", n)
		pod.Object.Annotations = map[string]string{"note": strings.Repeat("x", n*20)}
		st.Apply(event(uint64(n+1), change(client.Add, pod)))
		st.SetStatus(pod.UID, podStatus(v1.PodRunning, strings.Repeat("y", n)), s.clock.Now())
		allocated := allocation(int64(n))
		st.SetAllocation(pod.UID, &allocated)
		if err := st.SetEnd(t.Context(), pod.UID, store.End{Name: pod.Name, Grace: int64(n)}); err != nil {
			t.Fatal(err)
		}
	}
	large := newPod("large", "file", 1)
	large.Object.Annotations = map[string]string{"note": strings.Repeat("x", 9000)}
	st.Apply(event(40, change(client.Add, large), change(client.Remove, reference(newPod("u01", "file", 1)))))
	mustFlush(t, st)
	earlier, err := os.ReadFile(s.cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	st.Apply(event(42, change(client.Update, newPod("u20", "file", 900))))
	st.Drop("u03")
	stop()
	if file, err = os.ReadFile(s.cfg.Path); err != nil {
		t.Fatal(err)
	}
	return file, s.state(t), earlier
}

// opened opens a store whose file has these bytes, and reports whether the file was set aside. If not, the state is
// that before the damage. If it was, the file is unchanged, the log has one line, and a new store replaces it.
func opened(t *testing.T, what string, file []byte, want store.State) (aside bool) {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	s := settingIn(dir)
	if err := os.WriteFile(s.cfg.Path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	st, state, stop := s.open(t)
	st.Apply(event(100))
	if err := st.Flush(t.Context()); err != nil {
		t.Fatalf("%s: Flush: %v", what, err)
	}
	stop()
	if got := s.state(t).Cursor.GetRevision(); got != 100 {
		t.Errorf("%s: after that the store is at revision %d; want 100", what, got)
	}
	names := s.beside(t)
	if len(names) == 0 {
		if diff := diff(want, state); diff != "" {
			t.Errorf("%s: the store isn't set aside, and has another state (-want +got):\n%s", what, diff)
		}
		return false
	}
	if len(names) != 1 || names[0] != ".damaged-20260203T040506Z" {
		t.Fatalf("%s: files that were set aside: %v; want one", what, names)
	}
	if kept, err := os.ReadFile(s.cfg.Path + names[0]); err != nil || !bytes.Equal(kept, file) {
		t.Errorf("%s: the file that was set aside isn't the old file: %v", what, err)
	}
	if lines := strings.Count(s.log.String(), "set_aside="+s.cfg.Path+names[0]); lines != 1 || strings.Count(s.log.String(), "level=ERROR") != 1 {
		t.Errorf("%s: the log has %d lines about it; want one, an error:\n%s", what, lines, s.log)
	}
	if state.Cursor != nil || len(state.Pods)+len(state.Statuses)+len(state.Ends)+len(state.Allocations) > 0 {
		t.Errorf("%s: the store was set aside, and still has %+v", what, state)
	}
	return true
}

// TestDamage: a file with other content than was written is set aside, unless only unused space differs. It never
// crashes the process.
func TestDamage(t *testing.T) {
	file, want, earlier := sample(t)
	page, random := os.Getpagesize(), rand.New(rand.NewPCG(3, 4))
	aside, intact := 0, 0
	try := func(what string, file []byte) {
		t.Helper()
		if opened(t, what, file, want) {
			aside++
		} else {
			intact++
		}
	}
	try("nothing", file)
	try("an empty file", nil)
	for at := 0; at < len(file); at += page {
		try(fmt.Sprintf("%d bytes of %d", at+1, len(file)), file[:at+1])
		for what, with := range map[string][]byte{"zeros": make([]byte, page), "ones": bytes.Repeat([]byte{0xFF}, page)} {
			damaged := bytes.Clone(file)
			copy(damaged[at:], with)
			try(fmt.Sprintf("page %d is %s", at/page, what), damaged)
		}
		for range 2 {
			damaged := bytes.Clone(file)
			damaged[at+random.IntN(page)] ^= byte(1) << random.IntN(8)
			try(fmt.Sprintf("a bit of page %d", at/page), damaged)
		}
		// A disk may lose a write: each page is valid by itself. Each of the first two pages stands for a whole state.
		if at >= 2*page && at+page <= len(earlier) {
			damaged := bytes.Clone(file)
			copy(damaged[at:], earlier[at:at+page])
			try(fmt.Sprintf("page %d is an older one", at/page), damaged)
		}
	}
	if aside < 30 || intact < 5 {
		t.Errorf("%d were set aside and %d were not; want many of both", aside, intact)
	}
}

// TestWrongRecords: records may be wrong in valid pages.
func TestWrongRecords(t *testing.T) {
	file, want, _ := sample(t)
	for what, edit := range map[string]func(tx *bbolt.Tx) error{
		"a record too few":   func(tx *bbolt.Tx) error { return tx.Bucket([]byte("ends")).Delete([]byte("u05")) },
		"a record too many":  func(tx *bbolt.Tx) error { return tx.Bucket([]byte("ends")).Put([]byte("x"), sealed("x", "{}")) },
		"a record of a byte": func(tx *bbolt.Tx) error { return tx.Bucket([]byte("pods")).Put([]byte("u05"), []byte{1}) },
		"an invalid record":  func(tx *bbolt.Tx) error { return tx.Bucket([]byte("pods")).Put([]byte("u05"), sealed("u05", "{")) },
		"a record that was moved": func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte("pods"))
			return b.Put([]byte("u05"), b.Get([]byte("u06")))
		},
		"an invalid allocation": func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("allocations")).Put([]byte("u05"), sealed("u05", `{"containers":7}`))
		},
		"an allocation too few": func(tx *bbolt.Tx) error { return tx.Bucket([]byte("allocations")).Delete([]byte("u05")) },
		"no allocations":        func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("allocations")) },
		"a bucket in the place of a record": func(tx *bbolt.Tx) error {
			_, err := tx.Bucket([]byte("statuses")).CreateBucket([]byte("x"))
			return err
		},
		"no head":   func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("head")) },
		"no bucket": func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("statuses")) },
	} {
		if !opened(t, what, edited(t, file, edit), want) {
			t.Errorf("%s: the store isn't set aside", what)
		}
	}
}

// sealed returns a record with its checksum.
func sealed(key, payload string) []byte {
	sum := crc32.Checksum([]byte(key+payload), crc32.MakeTable(crc32.Castagnoli))
	return append(binary.BigEndian.AppendUint32(nil, sum), payload...)
}

// edited returns a store's file after a transaction of the test.
func edited(t *testing.T, file []byte, edit func(tx *bbolt.Tx) error) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "edited")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(edit)
	if closeErr := db.Close(); err != nil || closeErr != nil {
		t.Fatal(err, closeErr)
	}
	if file, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestOtherFormat: a store of another format is set aside under a name with the format.
func TestOtherFormat(t *testing.T) {
	file, _, _ := sample(t)
	record := sealed("head", `{"format":7,"something":"else"}`)
	file = edited(t, file, func(tx *bbolt.Tx) error { return tx.Bucket([]byte("head")).Put([]byte("head"), record) })
	s := newSetting(t)
	if err := os.WriteFile(s.cfg.Path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	if state := s.state(t); state.Cursor != nil || len(state.Pods) > 0 {
		t.Errorf("the state is %+v; want an empty one", state)
	}
	if names := s.beside(t); len(names) != 1 || !strings.HasPrefix(names[0], ".version-7-2026") {
		t.Errorf("files that were set aside: %v; want the one of format 7", names)
	}
}

// TestDamagedLater: damage that a write finds is an error of that write; the file is set aside, and a new one gets the
// whole state.
func TestDamagedLater(t *testing.T) {
	for what, damage := range map[string]func(t *testing.T, path string){
		"cut off": func(t *testing.T, path string) {
			if err := os.Truncate(path, int64(2*os.Getpagesize())); err != nil {
				t.Fatal(err)
			}
		},
		"overwritten": func(t *testing.T, path string) {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			info, err := f.Stat()
			if err == nil {
				at := int64(2 * os.Getpagesize())
				_, err = f.WriteAt(bytes.Repeat([]byte{0xEE}, int(info.Size()-at)), at)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := newSetting(t)
			st, _, stop := s.open(t)
			st.Apply(event(1, change(client.Add, newPod("a", "file", 1), newPod("b", "file", 1))))
			mustFlush(t, st)
			<-s.committed
			damage(t, s.cfg.Path)
			st.Apply(event(2, change(client.Update, newPod("a", "file", 2))))
			if err := st.Flush(t.Context()); err == nil {
				t.Fatal("Flush to a damaged file succeeds")
			}
			s.retry(t)
			<-s.committed
			stop()
			want := store.State{
				Cursor: cursor(2), Pods: []client.Pod{newPod("a", "file", 2), newPod("b", "file", 1)},
				Statuses: map[types.UID]store.Status{}, Ends: map[types.UID]store.End{},
			}
			if diff := diff(want, s.state(t)); diff != "" {
				t.Errorf("the new store (-want +got):\n%s", diff)
			}
			if names := s.beside(t); len(names) != 1 || !strings.HasPrefix(names[0], ".damaged-") {
				t.Errorf("files that were set aside: %v; want the damaged one", names)
			}
		})
	}
}
