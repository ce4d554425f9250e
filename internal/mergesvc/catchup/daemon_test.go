package catchup_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/catchup"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/view"
)

// daemon is a podconfigd since its start: it merges sets, and keeps the state after each revision.
type daemon struct {
	*history.History
	merger *merge.Merger
	states map[uint64]*history.State
	second int64
}

func newDaemon(cfg history.Config) *daemon {
	var sources []merge.Source
	for _, name := range cfg.Sources {
		sources = append(sources, merge.Source{Name: name})
	}
	merger := merge.New(sources, merge.Stored{Number: cfg.Start.Number, Pods: cfg.Start.Pods})
	l := &daemon{History: history.New(cfg), merger: merger, states: map[uint64]*history.State{}}
	l.states[l.Number()] = l.State()
	return l
}

// restarted is a podconfigd that starts with what the store has of this one: all pods are stale, and no revision is
// kept.
func (l *daemon) restarted(sources ...string) *daemon {
	st := l.State()
	start := history.Start{Number: st.Number, Tombstones: st.Tombstones, Horizon: st.Horizon}
	for _, p := range st.Pods {
		start.Pods = append(start.Pods, &revision.Pod{
			Object: p.Object, Source: p.Source, Origin: p.Origin, Stale: true, SpecDigest: p.SpecDigest, StatusDigest: p.StatusDigest,
			Created: p.Created, SpecChanged: p.SpecChanged, StatusChanged: p.StatusChanged,
		})
	}
	next := newDaemon(history.Config{Instance: st.Instance, Sources: sources, Start: start})
	for number, state := range l.states {
		if number < st.Number {
			next.states[number] = state
		}
	}
	return next
}

// merge merges the set and returns the revision, if it makes one.
func (l *daemon) merge(set manifest.Set) *revision.Revision {
	rev := l.merger.Apply(set)
	if rev != nil {
		l.Append(rev)
		l.states[rev.Number] = l.State()
	}
	return rev
}

// set merges a set in mergetest's notation.
func (l *daemon) set(source, text string) *revision.Revision {
	l.second++
	return l.merge(mergetest.Set(source, l.second, text))
}

// configure replaces the configured sources, and returns the revision, if there is one.
func (l *daemon) configure(names ...string) *revision.Revision {
	sources := make([]merge.Source, 0, len(names))
	for _, name := range names {
		sources = append(sources, merge.Source{Name: name})
	}
	rev := l.merger.Configure(sources)
	if rev != nil {
		l.Append(rev)
		l.states[rev.Number] = l.State()
	}
	return rev
}

// sets draws random sets.
type sets interface {
	Draw(t *rapid.T) manifest.Set
}

// draw merges up to n random sets.
func (l *daemon) draw(t *rapid.T, random sets, n int) {
	for range rapid.IntRange(0, n).Draw(t, "sets") {
		l.merge(random.Draw(t))
	}
}

// at returns a function that returns the state after a revision.
func (l *daemon) at(number uint64) func() *history.State {
	return func() *history.State { return l.states[number] }
}

// everything is the view of a consumer without filter and scope.
var everything = mustView(view.Config{})

func mustView(cfg view.Config) *view.View {
	v, err := view.New(cfg)
	if err != nil {
		panic(err)
	}
	return v
}

// known returns the known pods of a consumer with the view.
func known(v *view.View, pods map[types.UID]*revision.Pod, named bool) []catchup.Known {
	var out []catchup.Known
	for _, p := range pods {
		k := catchup.Known{UID: p.UID(), Source: p.Source}
		k.SpecDigest, k.StatusDigest = v.Digests(p)
		if named {
			k.Namespace, k.Name = p.Object.Namespace, p.Object.Name
		}
		out = append(out, k)
	}
	return out
}

// words formats the changes, one on each line.
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
