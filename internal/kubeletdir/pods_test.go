package kubeletdir

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestList: each directory is listed once, files aren't, and a missing place has none.
func TestList(t *testing.T) {
	dir := t.TempDir()
	p := Pods{Current: filepath.Join(dir, "now"), Previous: filepath.Join(dir, "before")}
	for _, name := range []string{"now/b", "now/a", "before/a", "before/c"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(p.Current, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := p.List(); err != nil || !slices.Equal(got, []types.UID{"a", "b", "c"}) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := (Pods{Current: filepath.Join(dir, "missing")}).List(); err != nil || len(got) != 0 {
		t.Errorf("of a missing place: %q, %v", got, err)
	}
}

// TestListIsBounded: a directory that a driver has filled doesn't fill podexecd's memory.
func TestListIsBounded(t *testing.T) {
	dir := t.TempDir()
	const most = 300
	for i := range most {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	called := 0
	count := func(string) { called++ }
	if err := eachDir(dir, most, count); err != nil || called != 0 {
		t.Errorf("%d files: %v", most, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "one more"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := eachDir(dir, most, count); !errors.Is(err, ErrTooMany) || called > most {
		t.Errorf("%d names: %v", most+1, err)
	}
	if err := eachDir(dir, most+1, count); err != nil || called == 0 {
		t.Errorf("with room: %v", err)
	}
}
