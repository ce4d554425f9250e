package boltfile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// keptAside is the number of kept files that were set aside.
const keptAside = 5

// asideName matches the suffix that SetAside appends to the path: reason, time, and a number within that second.
var asideName = regexp.MustCompile(`^\.(?:damaged|version-[0-9]+)-([0-9]{8}T[0-9]{6}Z)(?:-([0-9]+))?$`)

// SetAside renames the file at path and returns its new name, with the time and, if the reason is a FormatError, the
// format. It overwrites nothing.
func SetAside(path string, reason error, now time.Time) (string, error) {
	why := "damaged"
	if other := (*FormatError)(nil); errors.As(reason, &other) {
		why = fmt.Sprintf("version-%d", other.Found)
	}
	base := fmt.Sprintf("%s.%s-%s", path, why, now.UTC().Format("20060102T150405Z"))
	aside := base
	for n := 2; ; n++ {
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return "", refused(fmt.Errorf("set aside: %w", err))
		}
		aside = fmt.Sprintf("%s-%d", base, n)
	}
	if err := os.Rename(path, aside); err != nil {
		return "", refused(fmt.Errorf("set aside: %w", err))
	}
	return aside, nil
}

// PruneAside removes the oldest files that were set aside, and keeps the last keptAside. It never removes the content
// of a directory.
func PruneAside(path string) error {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	type aside struct{ name, when, which string }
	var found []aside
	for _, e := range entries {
		suffix, ok := strings.CutPrefix(e.Name(), filepath.Base(path))
		if m := asideName.FindStringSubmatch(suffix); ok && m != nil {
			found = append(found, aside{name: e.Name(), when: m[1], which: m[2]})
		}
	}
	// A number with more digits is the larger one.
	slices.SortFunc(found, func(a, b aside) int {
		return cmp.Or(strings.Compare(a.when, b.when), cmp.Compare(len(a.which), len(b.which)), strings.Compare(a.which, b.which))
	})
	var errs []error
	for _, a := range found[:max(0, len(found)-keptAside)] {
		errs = append(errs, os.Remove(filepath.Join(filepath.Dir(path), a.name)))
	}
	return errors.Join(errs...)
}
