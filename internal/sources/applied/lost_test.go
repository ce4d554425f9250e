package applied_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/sources/applied"
	"github.com/podstream/podstream/internal/write"
)

// known makes podconfigd have pods of the source from before the start.
func known(c *applied.Config) { c.Known = func() bool { return true } }

// TestMissingStore: if podconfigd has pods of the source and there is no store, the source has an error, so that the pods stay,
// until an administrator accepts an empty store. Without such pods, a new store is made at once.
func TestMissingStore(t *testing.T) {
	n := start(t, filepath.Join(t.TempDir(), "applied"), known)
	if got := n.next(); !strings.Contains(got, "doesn't exist, and podconfigd has pods of it; restore it, or accept an empty one: podctl sources accept applied") {
		t.Errorf("the set is %q", got)
	}
	if err := n.put(pod("a", "1")); !errors.Is(err, write.ErrUnready) {
		t.Errorf("Write: %v; want ErrUnready", err)
	}
	n.clock.Step(applied.CheckFrequency)
	if got := n.next(); !strings.HasPrefix(got, "error: ") {
		t.Errorf("the set after the interval is %q; want the error still", got)
	}
	if what, err := n.Accept(); err != nil || !strings.Contains(what, "empty store") {
		t.Errorf("Accept: %q, %v", what, err)
	}
	n.wantNext("")
	n.mustPut(pod("a", "1"))
	if what, err := n.Accept(); err != nil || what != "" {
		t.Errorf("Accept of nothing: %q, %v; want nothing", what, err)
	}
	n.stop()
	if got := start(t, filepath.Join(t.TempDir(), "applied")).next(); got != "" {
		t.Errorf("without known pods the set is %q; want an empty one", got)
	}
}

// TestDamagedStore: a store that is damaged, wherever, isn't used and isn't replaced: its pods stay. An acceptance sets it aside.
func TestDamagedStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "applied")
	n := start(t, dir)
	n.wantNext("")
	n.mustPut(pod("a", "marked"), pod("b", "1"))
	n.stop()
	path := filepath.Join(dir, storeFile)
	good, err := os.ReadFile(path)
	check(t, err)
	for name, damage := range map[string]func([]byte) []byte{
		"a changed document": func(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), "marked", "market")) },
		"zeros":              func(b []byte) []byte { return make([]byte, len(b)) },
		"half of it":         func(b []byte) []byte { return b[:len(b)/2] },
		"another format":     func(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), "format1", "format2")) },
	} {
		t.Run(name, func(t *testing.T) {
			bad := damage([]byte(string(good)))
			if string(bad) == string(good) {
				t.Fatal("nothing is damaged")
			}
			check(t, os.WriteFile(path, bad, 0o600))
			n := start(t, dir)
			if got := n.next(); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, "podctl sources accept applied") {
				t.Errorf("the set is %q; want an error that says what to do", got)
			}
			if now, err := os.ReadFile(path); err != nil || string(now) != string(bad) {
				t.Errorf("the damaged store was changed: %v", err)
			}
			if _, err := n.Accept(); err != nil {
				t.Fatal(err)
			}
			n.wantNext("")
			n.mustPut(pod("c", "1"))
			n.stop()
			aside, err := filepath.Glob(path + ".*-*")
			if err != nil || len(aside) != 1 {
				t.Errorf("set aside are %v, %v; want the damaged store", aside, err)
			}
			check(t, os.Remove(aside[0]))
		})
	}
	check(t, os.WriteFile(path, good, 0o600))
	start(t, dir).wantNext("applied/one/default/a: marked; applied/one/default/b: 1")
}

// TestRemovedStore: a store that is removed while the source runs is written again from memory. The write that finds it gone is
// refused.
func TestRemovedStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "applied")
	n := start(t, dir)
	n.wantNext("")
	n.mustPut(pod("a", "1"))
	n.wantNext("applied/one/default/a: 1")
	check(t, os.RemoveAll(dir))
	if err := n.put(pod("b", "1")); !errors.Is(err, write.ErrUnready) {
		t.Errorf("Write to a removed store: %v; want ErrUnready", err)
	}
	n.mustPut(pod("c", "1"))
	n.stop()
	n = start(t, dir, known)
	n.wantNext("applied/one/default/a: 1; applied/one/default/c: 1")
	check(t, os.Remove(filepath.Join(dir, storeFile)))
	n.clock.Step(applied.CheckFrequency)
	n.wantNext("applied/one/default/a: 1; applied/one/default/c: 1")
	n.stop()
	start(t, dir, known).wantNext("applied/one/default/a: 1; applied/one/default/c: 1")
}

// TestLockedStore: a store that another process uses isn't used; it is tried again.
func TestLockedStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "applied")
	first := start(t, dir)
	first.wantNext("")
	first.mustPut(pod("a", "1"))
	second := start(t, dir)
	if got := second.next(); !strings.Contains(got, "in use by another process") {
		t.Errorf("the set is %q; want that the store is in use", got)
	}
	first.stop()
	second.clock.Step(applied.CheckFrequency)
	second.wantNext("applied/one/default/a: 1")
}
