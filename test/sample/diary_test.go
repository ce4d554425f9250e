package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestDiary: the events of a command are recorded in order, and each run has its own ID.
func TestDiary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "diary")
	if code := run(t.Context(), []string{"diary", path, "exit", "3"}, nil, io.Discard, t.Output()); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	if code := run(t.Context(), []string{"diary", path, "on-term", os.DevNull, "x", "1ms", "4"}, terminated(), io.Discard, t.Output()); code != 4 {
		t.Errorf("exit code %d, want 4", code)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`^\d{19} (\w{8}) start\n\d{19} (\w{8}) end 3\n\d{19} (\w{8}) start\n\d{19} (\w{8}) term\n\d{19} (\w{8}) end 4\n$`)
	m := want.FindStringSubmatch(string(text))
	if m == nil || m[1] != m[2] || m[3] != m[4] || m[4] != m[5] || m[1] == m[3] {
		t.Errorf("the diary of two runs:\n%s", text)
	}
}
