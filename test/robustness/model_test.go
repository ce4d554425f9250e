package robustness

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// merger is the product's merge, with the pods of its revisions.
type merger struct {
	*merge.Merger
	stored merge.Stored
	pods   map[string]*revision.Pod
}

func newMerger(sources []string, stored merge.Stored) *merger {
	m := &merger{stored: stored, pods: map[string]*revision.Pod{}}
	m.Merger = merge.New(sourcesOf(sources), stored)
	for _, p := range stored.Pods {
		stale := clonePod(p)
		stale.Stale = true
		m.pods[string(p.UID())] = stale
	}
	return m
}

func clonePod(p *revision.Pod) *revision.Pod {
	return &revision.Pod{
		Object: p.Object, Source: p.Source, Origin: p.Origin, Stale: p.Stale, SpecDigest: p.SpecDigest, StatusDigest: p.StatusDigest,
		Created: p.Created, SpecChanged: p.SpecChanged, StatusChanged: p.StatusChanged,
	}
}

func (m *merger) fold(rev *revision.Revision) {
	m.stored.Number = rev.Number
	for _, c := range rev.Changes {
		for _, p := range c.Pods {
			if c.Op == revision.REMOVE {
				delete(m.pods, string(p.UID()))
			} else {
				m.pods[string(p.UID())] = p
			}
		}
	}
	for _, p := range rev.Settled {
		m.pods[string(p.UID())] = p
	}
	complete := maps.Clone(m.stored.Complete)
	if complete == nil {
		complete = map[string]bool{}
	}
	for _, name := range rev.Dropped {
		delete(complete, name)
	}
	if rev.BecameReady {
		complete[rev.Source] = true
	}
	m.stored.Complete = complete
}

// restart returns a merge with the state that a store would have kept of this one.
func (m *merger) restart(sources []string) *merger {
	stored := m.stored
	stored.Pods = nil
	for _, uid := range slices.Sorted(maps.Keys(m.pods)) {
		stored.Pods = append(stored.Pods, m.pods[uid])
	}
	return newMerger(sources, stored)
}

func (m *merger) describe() map[string]string {
	out := map[string]string{}
	for uid, p := range m.pods {
		out[uid] = fmt.Sprintf("%s %s stale=%v changed %d", p, p.Source, p.Stale, max(p.SpecChanged, p.StatusChanged)) +
			" spec " + short(p.SpecDigest) + " status " + short(p.StatusDigest)
	}
	for _, s := range m.Sources() {
		out["source "+s.Name] = fmt.Sprint(s.Ready)
	}
	return out
}

func (s *State) describe() map[string]string {
	out := map[string]string{}
	for uid, p := range s.Pods {
		out[uid] = fmt.Sprintf("%s/%s %s stale=%v changed %d", p.Namespace, p.Name, p.Source, p.Stale, p.Changed) +
			" spec " + short(p.SpecDigest) + " status " + short(p.StatusDigest)
	}
	for _, src := range s.Sources {
		out["source "+src.Name] = fmt.Sprint(src.Ready)
	}
	return out
}

// TestOracleAgreesWithMerge gives both the same random sets, with restarts and changes of the sources in
// between.
func TestOracleAgreesWithMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := []string{"file", "http", "api"}
		random := mergetest.NewRandom(all...)
		sources := all
		product, oracle, number := newMerger(sources, merge.Stored{}), newModel(sources, nil), uint64(0)
		// The store has the state of the last revision.
		stored := oracle.state()
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				sources = all[rapid.IntRange(0, 1).Draw(t, "first source"):rapid.IntRange(2, 3).Draw(t, "last source")]
				product, oracle = product.restart(sources), newModel(sources, stored)
			}
			var step Step
			var did effect
			var rev *revision.Revision
			if rapid.IntRange(0, 4).Draw(t, "configure") == 0 {
				sources = rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, len(all), rapid.ID).Draw(t, "sources")
				step.Configure = sources
				did, rev = oracle.configure(sources, number+1), product.Configure(sourcesOf(sources))
			} else {
				set := random.Draw(t)
				step.Set = &set
				did, rev = oracle.apply(set, number+1), product.Apply(set)
			}
			reported := rev != nil && (len(rev.Changes) > 0 || rev.Sources != nil)
			if (did == visible) != reported || did == silent && rev != nil {
				t.Fatalf("step %d, %v: the oracle returns %d, the merge produces %v", i, step, did, rev)
			}
			if rev != nil {
				product.fold(rev)
				number, stored = rev.Number, oracle.state()
			}
			if diff := cmp.Diff(oracle.state().describe(), product.describe()); diff != "" {
				t.Fatalf("step %d, %v (-oracle +merge):\n%s", i, step, diff)
			}
		}
	})
}
