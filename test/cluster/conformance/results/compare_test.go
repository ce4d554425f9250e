package results

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// of returns runs of one spec with these states.
func of(states ...string) []Result {
	var all []Result
	for _, s := range states {
		all = append(all, result("x", s))
	}
	return all
}

func TestClass(t *testing.T) {
	for name, tc := range map[string]struct {
		kubelet, podstream []Result
		want               Class
		reason             string
	}{
		"both pass":                      {of(Passed), of(Passed), PassOnBoth, ""},
		"one failure":                    {of(Passed), of(Failed), Unconfirmed, "why failed"},
		"three failures, and one pass":   {of(Passed), of(Failed, Failed, Failed), Unconfirmed, "why failed"},
		"three of each":                  {of(Passed, Passed, Passed), of(Failed, Failed, Failed), Worse, "why failed"},
		"unsteady on podstream":          {of(Passed, Passed, Passed), of(Failed, Passed, Passed), Worse, "why failed"},
		"unsteady on the kubelet":        {of(Failed, Passed, Passed), of(Passed, Passed, Passed), Better, "why failed"},
		"unsteady, and always failed":    {of(Failed, Passed, Passed), of(Failed, Failed, Failed), Worse, "why failed"},
		"always failed, and unsteady":    {of(Failed, Failed, Failed), of(Failed, Passed, Passed), Better, "why failed"},
		"unsteady on both":               {of(Failed, Passed, Passed), of(Passed, Passed, Failed), FailOnBoth, "why failed"},
		"fails on the kubelet":           {of(Failed, Failed, Failed), of(Passed, Passed, Passed), Better, "why failed"},
		"a skip of podstream":            {of(Passed), of(Skipped), Worse, "why skipped"},
		"a skip of the kubelet":          {of(Skipped), of(Passed), Worse, "why skipped"},
		"a skip, and a failure":          {of(Failed), of(Skipped), Worse, "kubelet: why failed; podstream: why skipped"},
		"skips of both":                  {of(Skipped), of(Skipped), SkippedOnBoth, "why skipped"},
		"failures of both":               {of(Failed, Failed, Failed), of(Failed, Failed, Failed), FailOnBoth, "why failed"},
		"one failure of both":            {of(Failed), of(Failed), Unconfirmed, "why failed"},
		"three failures, and one":        {of(Failed, Failed, Failed), of(Failed), Unconfirmed, "why failed"},
		"a spec that podstream lacks":    {of(Passed), nil, Lacking, ""},
		"a spec that the kubelet lacks":  {nil, of(Failed), Lacking, "why failed"},
		"runs that fail, then are left":  {of(Passed, Passed, Passed), of(Failed, Skipped, Skipped), Worse, "why skipped"},
		"a pass after two runs of three": {of(Passed, Passed), of(Failed, Passed), Unconfirmed, "why failed"},
	} {
		rows := Compare(map[string][]Result{"x": tc.kubelet}, map[string][]Result{"x": tc.podstream})
		if len(rows) != 1 || rows[0].Class() != tc.want || rows[0].Reason != tc.reason {
			t.Errorf("%s: %+v is of class %d", name, rows, rows[0].Class())
		}
	}
}

// A run does what has no result, then what differs, and nothing a fourth time. Alternating runs of both agents end.
func TestNext(t *testing.T) {
	specs := []string{"same", "new", "differs", "fails", "confirmed", "skip"}
	own := map[string][]Result{"same": of(Passed), "differs": of(Failed), "fails": of(Failed), "confirmed": of(Failed, Failed, Failed), "skip": of(Skipped)}
	other := map[string][]Result{"same": of(Passed), "new": of(Failed), "differs": of(Passed), "fails": of(Failed), "confirmed": of(Passed), "skip": of(Passed)}
	if got := Next(specs, own, other); !slices.Equal(got, []string{"new", "differs", "fails"}) {
		t.Errorf("next are %v", got)
	}
	if got := Next(specs, other, own); !slices.Equal(got, []string{"differs", "fails", "confirmed"}) {
		t.Errorf("for the other agent, next are %v", got)
	}
	for turn := range 10 {
		next := Next(specs, own, other)
		for _, spec := range next {
			own[spec] = append(own[spec], result(spec, []string{Passed, Failed}[turn%2]))
		}
		own, other = other, own
		if turn > 6 && len(next) > 0 {
			t.Errorf("run %d still has %v to do", turn, next)
		}
	}
	for spec, runs := range own {
		if len(runs) > Runs || len(other[spec]) > Runs {
			t.Errorf("%s has %d and %d runs", spec, len(runs), len(other[spec]))
		}
	}
}

func TestTable(t *testing.T) {
	rows := Compare(
		map[string][]Result{"a | b": of(Passed, Passed, Passed), "c": of(Passed), "d": of(Skipped), "e": of(Passed), "f": of(Passed), "g": of(Failed, Failed, Failed), "h": of(Failed)},
		map[string][]Result{"a | b": of(Failed, Failed, Failed), "c": of(Passed), "d": of(Skipped), "e": of(Failed), "g": of(Failed, Failed, Failed)},
	)
	text := Table(rows, false)
	for _, want := range []string{
		"| a \\| b | passes (3 runs) | fails (3 runs) | why failed |\n", "| d | skipped | skipped | why skipped |\n",
		"| e | passes | fails | why failed |\n", "| h | fails | - | why failed |\n", "| g | fails (3 runs) | fails (3 runs) | why failed |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
	for spec, row := range map[string]string{"c": "| c | passes | passes |", "f": "| f | passes | - |"} {
		if strings.Contains(text, "| "+spec+" |") || !strings.Contains(Table(rows, true), row) {
			t.Errorf("%s, which didn't fail, is shown:\n%s", spec, text)
		}
	}
	const want = "7 specs: 1 pass on both, 1 are skipped on both, 1 fail on both, 0 are better on podstream, " +
		"1 are worse on podstream or skipped on one only, 1 differ or fail and need more runs, 2 lack a result of one."
	if text, grade := Summary(rows); text != want || grade != Bad {
		t.Errorf("the summary is %q, and its grade %v", text, grade)
	}
	if text, grade := Summary(nil); grade != Bad {
		t.Errorf("no spec at all is good: %s", text)
	}
	some := Compare(map[string][]Result{"a": of(Passed), "b": of(Passed)}, map[string][]Result{"a": of(Passed)})
	if text, grade := Summary(some); grade != Partial {
		t.Errorf("without some results the grade is %v: %s", grade, text)
	}
	if long := cell(strings.Repeat("|", 2*longestCell)); strings.Count(long, "|") != longestCell {
		t.Errorf("a long cell is %q", long)
	}
}

// Specs that both agents skip for one reason have one row, if they are many.
func TestManySkipped(t *testing.T) {
	skipped := map[string][]Result{"run": of(Passed)}
	for n := range fewSkipped + 1 {
		skipped[fmt.Sprint("spec ", n)] = of(Skipped)
	}
	rows := Compare(skipped, skipped)
	want := Table(nil, false) + fmt.Sprintf("| %d specs, the first: spec 0 | skipped | skipped | why skipped |\n", fewSkipped+1)
	if text := Table(rows, false); text != want {
		t.Errorf("the table is\n%s, and should be\n%s", text, want)
	}
	if text := Table(rows, true); strings.Count(text, "\n| spec ") != fewSkipped+1 {
		t.Errorf("the complete table is\n%s", text)
	}
	delete(skipped, "spec 0")
	if text := Table(Compare(skipped, skipped), false); strings.Count(text, "\n| spec ") != fewSkipped {
		t.Errorf("the table of few is\n%s", text)
	}
}

// A spec of Decided that podstream fails is counted apart, and one that it passes or skips isn't. Each has a section in docs/decisions.md.
func TestDecided(t *testing.T) {
	doc := read(t, filepath.Join("..", "..", "..", "..", "docs", "decisions.md"))
	for spec, section := range Decided {
		if !strings.Contains(doc, "\n### "+section+"\n") {
			t.Errorf("docs/decisions.md has no section %q", section)
		}
		for state, want := range map[string]Class{Failed: Differs, Passed: PassOnBoth, Skipped: Worse} {
			rows := Compare(map[string][]Result{spec: of(Passed), "a": of(Passed)}, map[string][]Result{spec: of(state), "a": of(Passed)})
			text, grade := Summary(rows)
			if got := rows[slices.IndexFunc(rows, func(r Row) bool { return r.Spec == spec })].Class(); got != want {
				t.Errorf("%s on podstream: class %v, want %v", state, got, want)
			}
			if strings.Contains(text, "1 differ by decision") != (want == Differs) || (grade == Good) != (want != Worse) {
				t.Errorf("%s on podstream: %s, and grade %v", state, text, grade)
			}
		}
		if rowOf(spec, of(Failed), of(Failed)).Class() == Differs {
			t.Error("a failure of both agents counts as decided")
		}
	}
}

// Each kept result that is flipped, of either agent and to either state, shows in the table, and the summary isn't good.
func TestPlantedFlip(t *testing.T) {
	specs := []string{"a", "b", "c"}
	for _, flipped := range specs {
		for agent := range 2 {
			for _, state := range []string{Failed, Skipped} {
				t.Run(fmt.Sprint(flipped, agent, state), func(t *testing.T) {
					dir := t.TempDir()
					keys := []Key{{"kubelet", "v1.35.4", key.Runtime, key.Specs}, key}
					for _, k := range keys {
						add(t, dir, k, result("a", Passed), result("b", Passed), result("c", Passed))
					}
					report := func() (string, Grade) {
						text, grade, err := Report(dir, Key{Runtime: key.Runtime, Specs: key.Specs}, [2]string{}, false)
						if err != nil {
							t.Fatal(err)
						}
						return text, grade
					}
					if text, grade := report(); grade != Good || strings.Contains(text, "| spec |") {
						t.Fatalf("without a flip: %s", text)
					}
					path := pathOf(t, dir, keys[agent])
					from := fmt.Sprintf(`"spec":%q,"state":"passed"`, flipped)
					to := fmt.Sprintf(`"spec":%q,"state":%q,"reason":"planted"`, flipped, state)
					write(t, path, strings.Replace(read(t, path), from, to, 1))
					text, grade := report()
					if grade != Bad || !strings.Contains(text, "\n| "+flipped+" |") || strings.Count(text, "planted") != 1 || strings.Count(text, "passes") != 1 {
						t.Errorf("the flip shows as %s", text)
					}
				})
			}
		}
	}
}
