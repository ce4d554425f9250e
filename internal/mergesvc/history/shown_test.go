package history_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
)

// crowd returns n pods of one origin in mergetest's notation, each with a secret.
func crowd(n int, secret string) string {
	var b strings.Builder
	b.WriteString("x:")
	for i := range n {
		fmt.Fprintf(&b, " p%d(env.P=%s)", i, secret)
	}
	return b.String()
}

// TestAppendComparesLittle: with an inspector, one Append compares the redacted versions of a few pods, and of
// no more. An inspector that is behind a larger revision can't find out which of its pods have changed, not
// even from an earlier state.
func TestAppendComparesLittle(t *testing.T) {
	for name, tc := range map[string]struct {
		pods   int
		secret int
		// want is the horizon when the revision has been dropped. changed is the horizon if the pods have
		// changed in a way that an inspector sees.
		want, changed uint64
	}{
		"few pods":   {64, 1, 0, 1},
		"many pods":  {65, 1, 2, 2},
		"many bytes": {20, 128 << 10, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPublisher(history.Config{Revisions: 1})
			defer p.Inspect()()
			p.set(t, "file", crowd(tc.pods, strings.Repeat("a", tc.secret)))
			p.set(t, "file", crowd(tc.pods, strings.Repeat("b", tc.secret)))
			before := p.State()
			p.set(t, "api", "y: other()")
			for _, pod := range before.Pods {
				if spec, _ := pod.ShownChanged(); spec != tc.changed {
					t.Fatalf("%s has changed for an inspector at revision %d; want %d", pod, spec, tc.changed)
				}
			}
			if got := before.ShownHorizon(); got != tc.want || p.State().ShownHorizon() != tc.want {
				t.Errorf("the horizon is %d; want %d", got, tc.want)
			}
		})
	}
}

// TestAppendOutlivesRedaction: a pod whose redaction panics doesn't end the publisher, and what an inspector
// sees of the pod stays unknown.
func TestAppendOutlivesRedaction(t *testing.T) {
	p := newPublisher(history.Config{Revisions: 1})
	defer p.Inspect()()
	p.set(t, "file", "x: web(env.P=a)")
	p.set(t, "file", "x: web(env.P=b)")
	before := p.State()
	next := p.merger.Apply(mergetest.Set("file", 9, "x: web(env.P=c)"))
	before.Pods[0].Object = nil
	p.Append(next)
	if got := before.ShownHorizon(); got != 2 {
		t.Errorf("the horizon is %d; want 2, the revision that can't be compared", got)
	}
}
