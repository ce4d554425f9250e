package hazards

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// issues are the upstream issues that report the hazards, by the hazard's number. Some hazards have none.
var issues = map[int][]string{
	1: {"#136962", "#40331", "#45758"}, 2: {"#41476"}, 3: nil, 4: nil, 5: nil, 6: nil, 7: {"#67537", "#116080"}, 8: nil,
	9: {"#105543", "#140257"}, 10: {"#112814", "#88402", "#116880"}, 11: {"#104648", "#107733", "#109596", "#113145"},
	12: {"#70835", "#83883"}, 13: {"#134750"}, 14: {"#59618"}, 15: {"#27312", "#103587"}, 16: {"#138391", "#116484", "#76598"},
	17: {"#489", "#30065", "#91577"},
}

func TestEveryHazardHasItsScenario(t *testing.T) {
	for n, reported := range issues {
		files, err := filepath.Glob(fmt.Sprintf("testdata/%02d-*.txt", n))
		if err != nil || len(files) != 1 {
			t.Errorf("hazard %d has the files %q; want one", n, files)
			continue
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		about, _, _ := strings.Cut(string(text), "\n\n")
		if !strings.HasPrefix(about, "# ") || !strings.Contains(about, "Podstream") {
			t.Errorf("%s doesn't start with a description of the hazard and of Podstream's behaviour", files[0])
		}
		for _, issue := range reported {
			if !strings.Contains(about, issue) {
				t.Errorf("%s doesn't name %s", files[0], issue)
			}
		}
	}
}

// A scenario with a wrong expectation must fail; with the right one it passes.
func TestWrongExpectationFails(t *testing.T) {
	t.Parallel()
	const scenario = `
place manifests/web.yaml
pod web v1
----

start podconfigd
----

ops
----
ADD file default/web-n u1 v1
synced file=ready

place manifests/web.yaml
pod web v2
----

ops
----
REMOVE file default/web-n u1; ADD file default/web-n u2 v2

place manifests/web.yaml
pod web
----

quiet
----

sources
----
file=ready pods=1
  error: $DIR/manifests/web.yaml document 1: ... [keeps default/web-n]
`
	if got := failure(t, scenario); got != "" {
		t.Fatalf("the scenario itself fails:\n%s", got)
	}
	for name, wrong := range map[string]struct{ right, wrong, found string }{
		"another version":        {"u2 v2", "u2 v3", "ADD file default/web-n u2 v2"},
		"another op":             {"REMOVE file default/web-n u1; ADD file default/web-n u2 v2", "UPDATE file default/web-n u1 v2", "REMOVE file"},
		"the same pod":           {"ADD file default/web-n u2 v2", "ADD file default/web-n u1 v2", "web-n u2 v2"},
		"no op":                  {"ops\n----\nREMOVE file default/web-n u1; ADD file default/web-n u2 v2\n", "quiet\n----\n", "REMOVE file"},
		"a change that is quiet": {"pod web\n", "pod web v9\n", "ADD file default/web-n u3 v9"},
		"an unknown command":     {"quiet", "queit", "isn't known"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := failure(t, strings.Replace(scenario, wrong.right, wrong.wrong, 1)); !strings.Contains(got, wrong.found) {
				t.Errorf("the failure is %q; want one that shows %q", got, wrong.found)
			}
		})
	}
}

// failure runs a scenario and returns its failure. Empty means that it passed.
func failure(t *testing.T, text string) string {
	t.Helper()
	s := newScenario(t)
	f := &failing{TB: t}
	s.t = f
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		datadriven.RunTestFromStringAny(f, text, func(_ testing.TB, d *datadriven.TestData) string { return s.run(d) })
	}()
	<-ended
	return f.message
}

// failing records the failure of a test. Only the goroutine that runs the test uses it, and other goroutines
// after its end.
type failing struct {
	testing.TB
	message string
}

func (f *failing) Helper()             {}
func (f *failing) Logf(string, ...any) {}
func (f *failing) Failed() bool        { return f.message != "" }

func (f *failing) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (f *failing) Fatal(args ...any) { f.Fatalf("%s", fmt.Sprint(args...)) }
func (f *failing) FailNow()          { f.Fatalf("%s", "failed") }
