package podconfigd

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/mergesvc/metrics"
)

// TestSettling: a change is used when two checks that are far enough apart agree, and never before.
func TestSettling(t *testing.T) {
	// A look is at a number of milliseconds, and reads a letter; "u" is what was used last.
	type look struct {
		at   int
		read string
		want verdict
	}
	for name, looks := range map[string][]look{
		"nothing changed":        {{0, "u", unchanged}, {20_000, "u", unchanged}},
		"an event":               {{0, "a", unsettled}, {500, "a", settled}},
		"looks too close":        {{0, "a", unsettled}, {100, "a", unsettled}, {499, "a", unsettled}, {500, "a", settled}},
		"half-written at a poll": {{20_000, "a", unsettled}, {20_100, "b", unsettled}, {20_500, "b", unsettled}, {20_600, "b", settled}},
		"polls alone":            {{0, "a", unsettled}, {20_000, "a", settled}},
		"taken back":             {{0, "a", unsettled}, {400, "u", unchanged}, {500, "a", unsettled}, {1000, "a", settled}},
		"never quiet":            {{0, "a", unsettled}, {4000, "b", unsettled}, {8000, "a", unsettled}, {10_001, "b", restless}, {10_600, "b", settled}},
		"one after the other":    {{0, "a", unsettled}, {500, "a", settled}, {501, "b", unsettled}, {1001, "b", settled}},
	} {
		t.Run(name, func(t *testing.T) {
			s := settling{settle: 500 * time.Millisecond, limit: 10 * time.Second}
			start := time.Now()
			var got, want []verdict
			for _, l := range looks {
				got = append(got, s.look(start.Add(time.Duration(l.at)*time.Millisecond), digest{l.read[0]}, digest{'u'}))
				want = append(want, l.want)
			}
			if !slices.Equal(got, want) {
				t.Errorf("the looks find %v; want %v", got, want)
			}
		})
	}
}

// TestReloadHalfWritten: a poll that finds a configuration that is half written only takes note of it, good as it may
// be by itself.
func TestReloadHalfWritten(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	write := func(text string) {
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const half = sourcesFile + "files:\n- path: /a\n"
	write(half + "- {name: b, path: /b}\n")
	opts, err := parse([]string{"--config", config}, t.Output(), nil)
	if err != nil {
		t.Fatal(err)
	}
	st := newStage(t)
	if err := st.start(t.Context(), opts.plan); err != nil {
		t.Fatal(err)
	}
	st.expect("start " + opts.plan.Sources[0].Fingerprint + ", start " + opts.plan.Sources[1].Fingerprint)
	r := reloader{
		opts: opts, sup: st.supervisor, seen: opts.read, metrics: metrics.New(), log: discard(),
		settling: settling{settle: time.Hour, limit: time.Hour},
	}
	write(half)
	for range 3 {
		if got := r.check(t.Context(), true); got != unsettled {
			t.Errorf("a poll finds the verdict %v; want that it is unsettled", got)
		}
	}
	st.expect()
	write(half + "- {name: b, path: /b}\n")
	if got := r.check(t.Context(), true); got != unchanged {
		t.Errorf("once it is whole again a poll finds the verdict %v; want that nothing changed", got)
	}
	// If it stays so, it is the verdict.
	write(half)
	r.check(t.Context(), false)
	r.settling.settle = 0
	if got := r.check(t.Context(), true); got != settled {
		t.Errorf("the last look finds the verdict %v; want that it has settled", got)
	}
	if len(st.plan.Load().Sources) != 1 {
		t.Errorf("the sources are %v; want the one that is left", st.plan.Load().Sources)
	}
	st.expect("end "+opts.plan.Sources[1].Fingerprint, "configure file extra", "drop file:b")
}
