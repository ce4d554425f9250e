package logdir

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The logs of the last attempt are kept, and files of other names stay and don't count.
func TestNextAttempt(t *testing.T) {
	_, logs, dir := logIn(t, "0.log", "1.log", "1.log.20260102-030405.gz", "2.log.20260102-030405", "2.log.20260102-030405.tmp", "2147483646.log",
		"1000000.log", "3.log.old", "03.log")
	check(t, os.Mkdir(filepath.Join(dir, "7.log"), 0o700))
	if n, err := NextAttempt(logs, "pod/main"); n != 3 || err != nil {
		t.Errorf("%d, %v; want 3", n, err)
	}
	want := []string{"03.log", "1000000.log", "2.log.20260102-030405", "2.log.20260102-030405.tmp", "2147483646.log", "3.log.old", "7.log"}
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("%q; want %q", got, want)
	}
	// A link is not followed.
	outside := t.TempDir()
	check(t, os.WriteFile(filepath.Join(outside, "0.log"), nil, 0o600))
	check(t, os.WriteFile(filepath.Join(outside, "1.log"), nil, 0o600))
	check(t, os.Symlink(outside, filepath.Join(logs, "pod", "link")))
	for _, name := range []string{"pod/link", "pod/none", "pod/main/1000000.log"} {
		if n, err := NextAttempt(logs, name); n != 0 || err != nil {
			t.Errorf("%s: %d, %v; want 0", name, n, err)
		}
	}
	if got := names(t, outside); len(got) != 2 {
		t.Errorf("outside there is %q", got)
	}
}
