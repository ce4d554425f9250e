package catchup_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/catchup"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// life is a podconfigd from its start on: sets go in, and the state after each revision is kept.
type life struct {
	*history.History
	merger *merge.Merger
	states []*history.State
	second int64
}

func newLife(cfg history.Config) *life {
	var sources []merge.Source
	for _, name := range cfg.Sources {
		sources = append(sources, merge.Source{Name: name})
	}
	l := &life{History: history.New(cfg), merger: merge.New(sources)}
	l.states = []*history.State{l.State()}
	return l
}

// merge merges the set and returns the revision, if it makes one.
func (l *life) merge(set manifest.Set) *revision.Revision {
	rev := l.merger.Apply(set)
	if rev != nil {
		l.Append(rev)
		l.states = append(l.states, l.State())
	}
	return rev
}

// set merges a set in mergetest's notation.
func (l *life) set(source, text string) *revision.Revision {
	l.second++
	return l.merge(mergetest.Set(source, l.second, text))
}

// draw merges up to n random sets.
func (l *life) draw(t *rapid.T, random *mergetest.Random, n int) {
	for range rapid.IntRange(0, n).Draw(t, "sets") {
		l.merge(random.Draw(t))
	}
}

// known is what a consumer says that it holds.
func known(c *mergetest.Consumer) []catchup.Known {
	var out []catchup.Known
	for _, p := range c.Pods {
		out = append(out, catchup.Known{UID: p.UID(), Source: p.Source, SpecDigest: p.SpecDigest, StatusDigest: p.StatusDigest})
	}
	return out
}

// words are the changes, one a line.
func words(changes []revision.Change) string {
	var b strings.Builder
	for _, c := range changes {
		fmt.Fprintf(&b, "%s %s:", c.Op, c.Source)
		for _, p := range c.Pods {
			fmt.Fprintf(&b, " %s", p.UID())
		}
		b.WriteString("\n")
	}
	return b.String()
}

func wantWords(t *testing.T, what string, got []revision.Change, want ...string) {
	t.Helper()
	text := ""
	for _, line := range want {
		text += line + "\n"
	}
	if words(got) != text {
		t.Errorf("%s:\n%s\nwant\n%s", what, words(got), text)
	}
}
