package results

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func runs(states ...string) []Result {
	var all []Result
	for _, s := range states {
		r := Result{Spec: "x", State: s}
		if s != Passed {
			r.Reason = "why " + s
		}
		all = append(all, r)
	}
	return all
}

// Results that were appended are loaded, also after a run was killed while it wrote.
func TestAppend(t *testing.T) {
	dir, key := t.TempDir(), Key{"podstream", "abc", "containerd-2.4.2"}
	one := Result{Spec: "a", State: Passed, Seconds: 1.5, Time: time.Unix(1, 0).UTC()}
	if err := Append(dir, key, one); err != nil {
		t.Fatal(err)
	}
	path, err := key.file(dir)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"spec":"b","sta`); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Append(dir, key, Result{Spec: "a", State: Failed, Reason: "no"}, Result{Spec: "c", State: Skipped}); err != nil {
		t.Fatal(err)
	}
	got, err := Load(dir, key)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || len(got["a"]) != 2 || got["a"][0] != one || got["a"][1].Reason != "no" || len(got["c"]) != 1 {
		t.Errorf("loaded %+v", got)
	}
	if other, err := Load(dir, Key{"podstream", "abd", "containerd-2.4.2"}); err != nil || len(other) != 0 {
		t.Errorf("another commit has %+v, %v", other, err)
	}
	if commits, err := Commits(dir, "podstream", "containerd-2.4.2"); err != nil || !slices.Equal(commits, []string{"abc"}) {
		t.Errorf("the commits are %v, %v", commits, err)
	}
	for _, bad := range []Key{{}, {"a", "../b", "c"}, {"a", "b", ".."}} {
		if err := Append(dir, bad, one); err == nil {
			t.Errorf("%+v is a key", bad)
		}
	}
}

func TestCompare(t *testing.T) {
	for name, tc := range map[string]struct {
		kubelet, podstream []Result
		differs, counts    bool
		reason             string
	}{
		"both pass":                     {runs(Passed), runs(Passed), false, false, ""},
		"one failure":                   {runs(Passed), runs(Failed), true, false, "why failed"},
		"three failures, and one pass":  {runs(Passed), runs(Failed, Failed, Failed), true, false, "why failed"},
		"three of each":                 {runs(Passed, Passed, Passed), runs(Failed, Failed, Failed), true, true, "why failed"},
		"a spec that is unsteady":       {runs(Passed, Passed, Passed), runs(Failed, Passed, Passed), true, true, "why failed"},
		"a skip of one":                 {runs(Passed), runs(Skipped), true, true, "why skipped"},
		"skips of both":                 {runs(Skipped), runs(Skipped), false, false, "why skipped"},
		"a spec that only one has done": {runs(Passed), nil, false, false, ""},
		"other reasons":                 {runs(Failed), runs(Skipped), true, true, "kubelet: why failed; podstream: why skipped"},
		"failures of both":              {runs("timedout"), runs("timedout"), false, false, "why timedout"},
	} {
		rows := Compare(map[string][]Result{"x": tc.kubelet}, map[string][]Result{"x": tc.podstream})
		if r := rows[0]; len(rows) != 1 || r.Differs() != tc.differs || r.Counts() != tc.counts || r.Reason != tc.reason {
			t.Errorf("%s: %+v differs: %v, counts: %v", name, r, r.Differs(), r.Counts())
		}
	}
}

// A run does what has no result, then what differs, and nothing a fourth time.
func TestNext(t *testing.T) {
	specs := []string{"same", "new", "differs", "confirmed", "skip"}
	own := map[string][]Result{"same": runs(Passed), "differs": runs(Failed), "confirmed": runs(Failed, Failed, Failed), "skip": runs(Skipped)}
	other := map[string][]Result{"same": runs(Passed), "new": runs(Failed), "differs": runs(Passed), "confirmed": runs(Passed), "skip": runs(Passed)}
	if got := Next(specs, own, other); !slices.Equal(got, []string{"new", "differs"}) {
		t.Errorf("next are %v", got)
	}
	if got := Next(specs, other, own); !slices.Equal(got, []string{"differs", "confirmed"}) {
		t.Errorf("for the other agent, next are %v", got)
	}
}

func TestTable(t *testing.T) {
	rows := Compare(
		map[string][]Result{"a | b": runs(Passed, Passed, Passed), "c": runs(Passed), "d": runs(Skipped), "e": runs(Passed)},
		map[string][]Result{"a | b": runs(Failed, Failed, Failed), "c": runs(Passed), "d": runs(Skipped), "e": runs(Failed)},
	)
	text := Table(rows, false)
	for _, want := range []string{
		"| a \\| b | passes (3 runs) | fails (3 runs) | why failed |\n", "| d | skipped | skipped | why skipped |\n", "| e | passes | fails | why failed |\n",
		"\n4 specs: 1 pass on both, 1 are skipped on both, 1 differ in 3 runs of each, 1 differ and need more runs.\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "| c |") || !strings.Contains(Table(rows, true), "| c | passes | passes |") {
		t.Errorf("a spec that both pass is shown:\n%s", text)
	}
}
