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
	"github.com/podstream/podstream/internal/execsvc/store"
)

// sample is the file of a store with records of every kind, free pages and a pod that overflows its page; what it holds; and the
// file as it was a little earlier.
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
	st.Forget("u03")
	stop()
	if file, err = os.ReadFile(s.cfg.Path); err != nil {
		t.Fatal(err)
	}
	return file, s.state(t), earlier
}

// opened opens a store with the given bytes for its file, and tells whether it was set aside. If it wasn't, it holds what it held before
// it was damaged. If it was, it is kept as it is, the log says so once, and a new store works in its place.
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
			t.Errorf("%s: the store isn't set aside, and holds something else (-want +got):\n%s", what, diff)
		}
		return false
	}
	if len(names) != 1 || names[0] != ".damaged-20260203T040506Z" {
		t.Fatalf("%s: beside the store there are %v; want one file", what, names)
	}
	if kept, err := os.ReadFile(s.cfg.Path + names[0]); err != nil || !bytes.Equal(kept, file) {
		t.Errorf("%s: the file that was set aside isn't the one that was there: %v", what, err)
	}
	if lines := strings.Count(s.log.String(), "set_aside="+s.cfg.Path+names[0]); lines != 1 || strings.Count(s.log.String(), "level=ERROR") != 1 {
		t.Errorf("%s: the log has %d lines about it; want one, an error:\n%s", what, lines, s.log)
	}
	if state.Cursor != nil || len(state.Pods)+len(state.Statuses)+len(state.Ends)+len(state.Allocations) > 0 {
		t.Errorf("%s: the store was set aside, and yet it holds %+v", what, state)
	}
	return true
}

// TestDamage: a file that isn't what was written is set aside, unless only unused space of it is different; and never does it take
// the process with it.
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
		// As a disk does that lost a write: each page is good by itself. Of the first two each stands for a whole state.
		if at >= 2*page && at+page <= len(earlier) {
			damaged := bytes.Clone(file)
			copy(damaged[at:], earlier[at:at+page])
			try(fmt.Sprintf("page %d is an older one", at/page), damaged)
		}
	}
	if aside < 30 || intact < 5 {
		t.Errorf("%d were set aside and %d weren't; want many of both", aside, intact)
	}
}

// TestWrongRecords: pages may be good where records aren't.
func TestWrongRecords(t *testing.T) {
	file, want, _ := sample(t)
	for what, edit := range map[string]func(tx *bbolt.Tx) error{
		"a record too few":    func(tx *bbolt.Tx) error { return tx.Bucket([]byte("ends")).Delete([]byte("u05")) },
		"a record too many":   func(tx *bbolt.Tx) error { return tx.Bucket([]byte("ends")).Put([]byte("x"), sealed("x", "{}")) },
		"a record of a byte":  func(tx *bbolt.Tx) error { return tx.Bucket([]byte("pods")).Put([]byte("u05"), []byte{1}) },
		"a record that isn't": func(tx *bbolt.Tx) error { return tx.Bucket([]byte("pods")).Put([]byte("u05"), sealed("u05", "{")) },
		"a record that was moved": func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte("pods"))
			return b.Put([]byte("u05"), b.Get([]byte("u06")))
		},
		"an allocation that isn't": func(tx *bbolt.Tx) error {
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

// sealed is a record as a store has it.
func sealed(key, payload string) []byte {
	sum := crc32.Checksum([]byte(key+payload), crc32.MakeTable(crc32.Castagnoli))
	return append(binary.BigEndian.AppendUint32(nil, sum), payload...)
}

// edited is a store's file after a transaction of somebody else.
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

// TestOtherFormat: the store of another version is kept under a name that says so.
func TestOtherFormat(t *testing.T) {
	file, _, _ := sample(t)
	record := sealed("head", `{"format":7,"something":"else"}`)
	file = edited(t, file, func(tx *bbolt.Tx) error { return tx.Bucket([]byte("head")).Put([]byte("head"), record) })
	s := newSetting(t)
	if err := os.WriteFile(s.cfg.Path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	if state := s.state(t); state.Cursor != nil || len(state.Pods) > 0 {
		t.Errorf("the store holds %+v; want nothing", state)
	}
	if names := s.beside(t); len(names) != 1 || !strings.HasPrefix(names[0], ".version-7-2026") {
		t.Errorf("beside the store there are %v; want the one of format 7", names)
	}
}

// TestDamagedLater: damage that comes to light in a write is an error there; the file is set aside, and a new one gets all that there is.
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
				t.Errorf("the store that took its place (-want +got):\n%s", diff)
			}
			if names := s.beside(t); len(names) != 1 || !strings.HasPrefix(names[0], ".damaged-") {
				t.Errorf("beside the store there are %v; want the damaged one", names)
			}
		})
	}
}
