package results

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var key = Key{Agent: "podstream", Commit: "abc", Runtime: "containerd-2.4.2", Specs: "v1.35.4"}

// add opens a file, appends results, and closes it.
func add(t *testing.T, dir string, key Key, results ...Result) *File {
	t.Helper()
	f, err := Open(dir, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Append(results...); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return f
}

func result(spec, state string) Result {
	r := Result{Spec: spec, State: state, Seconds: 1.5, Time: time.Unix(1, 0).UTC()}
	if state != Passed {
		r.Reason = "why " + state
	}
	return r
}

func pathOf(t *testing.T, dir string, key Key) string {
	t.Helper()
	path, err := key.path(dir)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Wherever the writing of a result is cut off, the results before it stay, and the next run drops the rest by its name.
func TestCutOff(t *testing.T) {
	dir := t.TempDir()
	add(t, dir, key, result("a", Passed), result("b", Failed))
	path := pathOf(t, dir, key)
	text := read(t, path)
	for length := range len(text) + 1 {
		write(t, path, text[:length])
		whole := strings.Count(text[:length], "\n")
		loaded, err := Load(dir, key)
		if err != nil || len(loaded) != max(whole-1, 0) {
			t.Fatalf("of %q, Load returns %+v, %v", text[:length], loaded, err)
		}
		f := add(t, dir, key, result("c", Skipped))
		isCut := length > 0 && text[length-1] != '\n'
		if isCut != strings.HasPrefix(f.Dropped, path+": ") || !isCut && f.Dropped != "" {
			t.Fatalf("of %q, Open drops %q", text[:length], f.Dropped)
		}
		loaded, err = Load(dir, key)
		if err != nil || len(loaded) != max(whole-1, 0)+1 || len(loaded["c"]) != 1 {
			t.Fatalf("after %q and a result, Load returns %+v, %v", text[:length], loaded, err)
		}
	}
}

func TestAppend(t *testing.T) {
	dir := t.TempDir()
	one := result("a", Passed)
	add(t, dir, key, one)
	long := result("a", Failed)
	long.Reason = strings.Repeat("é", longestReason)
	f := add(t, dir, key, long, result("c", Skipped))
	loaded, err := Load(dir, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, runs := range []map[string][]Result{f.Runs, loaded} {
		if len(runs) != 2 || len(runs["a"]) != 2 || runs["a"][0] != one || len(runs["c"]) != 1 {
			t.Errorf("the runs are %+v", runs)
		}
		if reason := runs["a"][1].Reason; len(reason) > longestReason+3 || !strings.HasSuffix(reason, "é…") {
			t.Errorf("the long reason has %d bytes and ends with %q", len(reason), reason[len(reason)-8:])
		}
	}
	other := key
	other.Commit = "abd"
	if runs, err := Load(dir, other); err != nil || len(runs) != 0 {
		t.Errorf("another commit has %+v, %v", runs, err)
	}
	add(t, dir, other)
	if err := os.Chtimes(pathOf(t, dir, other), time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if commits, err := Commits(dir, key.Agent, key.Runtime); err != nil || !slices.Equal(commits, []string{"abc", "abd"}) {
		t.Errorf("the commits are %v, %v", commits, err)
	}
	if commit, runs, err := Latest(dir, key); err != nil || commit != "abc" || len(runs) != 2 {
		t.Errorf("the latest are %s, %v, %v", commit, runs, err)
	}
}

// What no run can have written isn't kept, and names can't lead out of the directory.
func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	for _, bad := range []Key{{}, {"a", "../b", "c", "d"}, {"a", "b", "..", "d"}, {"a", "b", "c", ""}} {
		if f, err := Open(dir, bad); err == nil {
			t.Errorf("%+v is a key: %v", bad, f.Close())
		}
	}
	f, err := Open(dir, key)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, bad := range []Result{{}, {Spec: "a", State: "timedout", Reason: "x", Time: time.Now()}, {Spec: "a", State: Passed}} {
		if err := f.Append(bad); err == nil {
			t.Errorf("%+v is kept", bad)
		}
	}
	if second, err := Open(dir, key); err == nil {
		t.Errorf("two runs write one file: %v", second.Close())
	}
}

// A damaged file is refused by its name and line, and so is one of another format, key or version of the specs.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	add(t, dir, key, result("a", Passed), result("b", Failed), result("c", Skipped))
	path := pathOf(t, dir, key)
	lines := strings.SplitAfter(read(t, path), "\n")
	for name, tc := range map[string]struct {
		line int
		text string
		want string
	}{
		"another format":    {1, strings.Replace(lines[0], `"format":1`, `"format":2`, 1), "its format is 2, and this program's is 1"},
		"no format":         {1, lines[1], "its format is 0"},
		"other specs":       {1, strings.Replace(lines[0], "v1.35.4", "v1.36.0", 1), "Specs:v1.36.0"},
		"another agent":     {1, strings.Replace(lines[0], `"podstream"`, `"kubelet"`, 1), "Agent:kubelet"},
		"no header":         {1, "\n", "begin with the format"},
		"half a line":       {3, lines[2][:len(lines[2])/2] + "\n", ":3: damaged: "},
		"an empty line":     {2, "\n", ":2: damaged: EOF"},
		"an unknown state":  {3, strings.Replace(lines[2], `"failed"`, `"faiqed"`, 1), `:3: damaged: the state "faiqed"`},
		"an unknown field":  {3, strings.Replace(lines[2], `"reason"`, `"season"`, 1), `:3: damaged: json: unknown field`},
		"no spec":           {2, strings.Replace(lines[1], `"spec":"a"`, `"spec":""`, 1), ":2: damaged: no spec"},
		"no time":           {2, `{"spec":"a","state":"passed","seconds":1}` + "\n", "damaged"},
		"two results":       {2, strings.TrimSpace(lines[1]) + lines[2], ":2: damaged: a second value follows"},
		"a failure, passed": {3, strings.Replace(lines[2], `"failed"`, `"passed"`, 1), `:3: damaged: the state passed with the reason`},
		"zeros of a crash":  {4, strings.Repeat("\x00", len(lines[3])-1) + "\n", ":4: damaged"},
	} {
		changed := slices.Clone(lines)
		changed[tc.line-1] = tc.text
		write(t, path, strings.Join(changed, ""))
		_, errLoad := Load(dir, key)
		f, errOpen := Open(dir, key)
		if errOpen == nil {
			errOpen = fmt.Errorf("none, and closed: %w", f.Close())
		}
		for _, err := range []error{errLoad, errOpen} {
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: the error is %v", name, err)
			}
		}
		if got := read(t, path); got != strings.Join(changed, "") {
			t.Errorf("%s: the refused file was changed to %q", name, got)
		}
	}
}
