package store_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/store"
)

// sample returns the file of a store with pages of every kind, and its contents.
func sample(t testing.TB) (file []byte, contents []string) {
	t.Helper()
	s := newSetting(t)
	st, _ := s.open(t)
	c := &store.Contents{Instance: "sample", Number: 100, Horizon: 2, ReadySources: map[string]uint64{"file": 3, "api": 9}}
	for n := range uint64(40) {
		c.Pods = append(c.Pods, newPod(fmt.Sprintf("u%d", n), fmt.Sprintf("n%02d", n), n, int(n)*20))
		c.Tombstones = append(c.Tombstones, history.Tombstone{Pod: newPod(fmt.Sprintf("gone%d", n), "gone", n, 0), Removed: 50 + n})
	}
	// One pod overflows its page.
	c.Pods = append(c.Pods, newPod("u-large", "n99", 1, 9000))
	if err := st.Replace(c); err != nil {
		t.Fatal(err)
	}
	// These leave free pages.
	for n := range uint64(5) {
		mustCommit(t, st, rev(101+n, change(revision.REMOVE, c.Pods[n]), change(revision.UPDATE, newPod("u20", "n20", n, int(n)*900))))
	}
	mustClose(t, st)
	file, err := os.ReadFile(s.cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	return file, describe(s.contents(t))
}

// opened opens a store with the given bytes as its file, and reports whether it was set aside. If it wasn't, it
// must have the contents from before the damage. If it was, the damaged file is kept as it is, the log reports
// it once, and the new store works.
func opened(t testing.TB, what string, file []byte, want []string) (aside bool) {
	t.Helper()
	s := settingIn(t.TempDir())
	if err := os.WriteFile(s.cfg.Path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	st, c, err := store.Open(s.cfg)
	if err != nil {
		t.Fatalf("%s: Open: %v", what, err)
	}
	defer func() { _ = st.Close() }()
	names := s.aside(t)
	if len(names) == 0 {
		if diff := cmp.Diff(want, describe(c)); diff != "" {
			t.Errorf("%s: the store isn't set aside, and holds something else (-want +got):\n%s", what, diff)
		}
		if err := st.Commit([]*revision.Revision{rev(c.Number + 1)}); err != nil {
			t.Errorf("%s: the store isn't set aside, and Commit fails: %v", what, err)
		}
		return false
	}
	if len(names) != 1 || !strings.HasSuffix(names[0], "-20260203T040506Z") {
		t.Errorf("%s: beside the store there are %v; want one file", what, names)
	}
	if kept, err := os.ReadFile(s.cfg.Path + names[0]); err != nil || !bytes.Equal(kept, file) {
		t.Errorf("%s: the file that was set aside isn't the one that was there: %v", what, err)
	}
	lines := strings.Count(s.log.String(), "set_aside="+s.cfg.Path+names[0])
	if lines != 1 || !strings.Contains(s.log.String(), "level=ERROR") {
		t.Errorf("%s: the log has %d lines about it; want one, an error:\n%s", what, lines, s.log)
	}
	if c.Instance == "sample" || c.Instance == "" || c.Number != 0 || len(c.Pods) > 0 {
		t.Errorf("%s: the new store holds %v; want a new instance id and nothing else", what, describe(c))
	}
	mustCommit(t, st, rev(1))
	return true
}

// TestTruncated truncates the file at every length: the rest is set aside, unless only unused space is missing.
func TestTruncated(t *testing.T) {
	file, want := sample(t)
	aside, intact := 0, 0
	for page := 0; page <= len(file); page += os.Getpagesize() {
		for _, size := range []int{page - 1, page, page + 1, page + 1234} {
			if size < 0 || size > len(file) {
				continue
			}
			if opened(t, fmt.Sprintf("%d bytes of %d", size, len(file)), file[:size], want) {
				aside++
			} else {
				intact++
			}
		}
	}
	if aside < 40 || intact < 1 {
		t.Errorf("%d were set aside and %d weren't; want many of the first, and the whole file among the others", aside, intact)
	}
}

// TestFlippedBits flips bits in the whole file, and in every byte of the pages' structure.
func TestFlippedBits(t *testing.T) {
	file, want := sample(t)
	random := rand.New(rand.NewPCG(3, 4))
	var offsets []int
	for page := 0; page < len(file); page += os.Getpagesize() {
		structure := 32
		if page < 2*os.Getpagesize() {
			structure = 96
		}
		for at := range structure {
			offsets = append(offsets, page+at)
		}
		for at := structure; at < os.Getpagesize(); at += 1 + random.IntN(1500) {
			offsets = append(offsets, page+at)
		}
	}
	aside := 0
	for _, at := range offsets {
		bit := byte(1) << random.IntN(8)
		file[at] ^= bit
		if opened(t, fmt.Sprintf("bit %#x of byte %d of page %d", bit, at%os.Getpagesize(), at/os.Getpagesize()), file, want) {
			aside++
		}
		file[at] ^= bit
	}
	if aside < len(offsets)/4 {
		t.Errorf("only %d of %d were set aside; want most of those that hit a page in use", aside, len(offsets))
	}
}

// TestLostPages overwrites each page with zeros, with ones, with its neighbour, and with its own older version.
func TestLostPages(t *testing.T) {
	file, want := sample(t)
	size := os.Getpagesize()
	for at := 0; at+2*size <= len(file); at += size {
		for what, page := range map[string][]byte{
			"zeros": make([]byte, size), "ones": bytes.Repeat([]byte{0xFF}, size), "the next page": file[at+size : at+2*size],
		} {
			damaged := bytes.Clone(file)
			copy(damaged[at:], page)
			opened(t, fmt.Sprintf("page %d is %s", at/size, what), damaged, want)
		}
	}
}

// TestOlderPages copies pages of an earlier state into a later one, like a disk that lost a write. Each page by
// itself is valid.
func TestOlderPages(t *testing.T) {
	s := newSetting(t)
	st, _ := s.open(t)
	var versions [][]byte
	for n := range uint64(20) {
		mustCommit(t, st, rev(n+1, change(revision.ADD, newPod(fmt.Sprint("u", n%10), fmt.Sprint("n", n%10), n, 1500))))
		file, err := os.ReadFile(s.cfg.Path)
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, file)
	}
	mustClose(t, st)
	want := describe(s.contents(t))
	size, last, aside := os.Getpagesize(), versions[len(versions)-1], 0
	for _, older := range versions[8 : len(versions)-1] {
		for at := 2 * size; at+size <= len(older); at += size {
			damaged := bytes.Clone(last)
			copy(damaged[at:], older[at:at+size])
			if opened(t, fmt.Sprintf("page %d is older", at/size), damaged, want) {
				aside++
			}
		}
	}
	if aside == 0 {
		t.Error("none was set aside; want those whose older page is in use")
	}
}
