package mounttable

import (
	"bufio"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"strings"

	"github.com/podstream/podstream/internal/kernelversion"
)

// Path is the table of this process.
const Path = "/proc/self/mountinfo"

// Mount is one mount.
type Mount struct {
	// Parent is the ID of the mount that it is mounted on.
	ID, Parent   int
	Major, Minor int
	// Root is the path within the file system that is mounted, and Point where it is.
	Root, Point  string
	Type, Source string
	// Options are those of the mount, and FSOptions those of its file system.
	Options, FSOptions []string
	// CutRoot is set if Root is only the beginning of the path. A Point that is cut is longer than any path of a system call.
	CutRoot bool
}

// Read returns the mounts that this process sees, in the order of mounting.
func Read() ([]Mount, error) { return Select(All) }

// All keeps all mounts.
func All(*Mount) bool { return true }

// Select returns the mounts that this process sees and that keep is true for, in the order of mounting. The memory is that of these.
func Select(keep func(*Mount) bool) ([]Mount, error) { return SelectFile(Path, keep) }

// ErrNoMounts is the error of a table without mounts. Each process sees one, so the file isn't a table, or not as a whole.
var ErrNoMounts = errors.New("the table has no mounts")

// maxReads bounds the readings until two are equal.
const maxReads = 10

// SelectFile is Select from a file with a table.
//
// Linux before 5.8 may leave out a mount if another one is unmounted meanwhile. There the table is read until it is the same twice; if it
// keeps changing, the mounts of all readings are returned.
func SelectFile(path string, keep func(*Mount) bool) ([]Mount, error) {
	mounts, sum, err := read(path, keep)
	if err != nil || !kernelversion.Before(5, 8) {
		return mounts, err
	}
	return settled(mounts, sum, func() ([]Mount, uint64, error) { return read(path, keep) })
}

// settled reads until two readings are equal. The first one is given.
func settled(mounts []Mount, sum uint64, again func() ([]Mount, uint64, error)) ([]Mount, error) {
	all, seen := mounts, map[int]bool{}
	for i := range all {
		seen[all[i].ID] = true
	}
	for range maxReads - 1 {
		next, nextSum, err := again()
		if err != nil || nextSum == sum {
			return next, err
		}
		sum = nextSum
		for i := range next {
			if !seen[next[i].ID] {
				seen[next[i].ID] = true
				all = append(all, next[i])
			}
		}
	}
	return all, nil
}

// seed is that of all sums.
var seed = maphash.MakeSeed()

// read reads the table once. sum is that of the whole text.
func read(path string, keep func(*Mount) bool) (mounts []Mount, sum uint64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("read the mounts: %w", err)
	}
	defer f.Close()
	var hash maphash.Hash
	hash.SetSeed(seed)
	lines, found := reader{in: bufio.NewReaderSize(io.TeeReader(f, &hash), bufferSize)}, false
	for {
		m, is, err := lines.next()
		if is {
			found = true
			if keep(&m) {
				mounts = append(mounts, m)
			}
		}
		switch {
		case errors.Is(err, io.EOF) && found:
			return mounts, hash.Sum64(), nil
		case errors.Is(err, io.EOF):
			return nil, 0, fmt.Errorf("read the mounts: %s: %w", path, ErrNoMounts)
		case err != nil:
			return nil, 0, fmt.Errorf("read the mounts: %w", err)
		}
	}
}

// options returns the elements of a list. A quoted value, such as an SELinux context, may have commas. The last element of a list that is
// cut is left out.
func options(list text) []string {
	quoted := false
	all := strings.FieldsFunc(list.String(), func(r rune) bool {
		quoted = quoted != (r == '"')
		return r == ',' && !quoted
	})
	if list.cut && len(all) > 0 {
		all = all[:len(all)-1]
	}
	return all
}
