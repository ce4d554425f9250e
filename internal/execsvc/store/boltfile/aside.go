package boltfile

import (
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

// keptAside is how many files that were set aside are kept.
const keptAside = 5

// asideName matches what SetAside appends to the path: why and when.
var asideName = regexp.MustCompile(`^\.[a-z0-9-]+-([0-9]{8}T[0-9]{6}\.[0-9]{9}Z)$`)

// SetAside renames what is at path, and returns its new name: PATH.WHY-TIME, where why is of small letters, digits and hyphens. Of
// the files that were set aside long ago only the last few stay.
func SetAside(path, why string, now time.Time) (aside string, err error) {
	for ; ; now = now.Add(1) {
		aside = fmt.Sprintf("%s.%s-%s", path, why, now.UTC().Format("20060102T150405.000000000Z"))
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return "", fmt.Errorf("set aside: %w", err)
		}
	}
	if err := os.Rename(path, aside); err != nil {
		return "", fmt.Errorf("set aside: %w", err)
	}
	pruneAside(path)
	return aside, nil
}

// pruneAside removes the oldest of the files that were set aside. One that can't be removed stays. It never removes what is in a
// directory.
func pruneAside(path string) {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return
	}
	type aside struct{ name, when string }
	var found []aside
	for _, e := range entries {
		suffix, ok := strings.CutPrefix(e.Name(), base)
		if m := asideName.FindStringSubmatch(suffix); ok && m != nil {
			found = append(found, aside{name: e.Name(), when: m[1]})
		}
	}
	slices.SortFunc(found, func(a, b aside) int { return strings.Compare(a.when, b.when) })
	for _, a := range found[:max(0, len(found)-keptAside)] {
		_ = os.Remove(filepath.Join(dir, a.name))
	}
}
