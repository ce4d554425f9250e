package merge_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// TestMergeAgainstOracle merges random sets and compares each revision with what an oracle finds that looks at everything each
// time. It checks G5 on the way: equal input, under new pointers, gives silence.
func TestMergeAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"file", "http", "api"}
		random, oracle := mergetest.NewRandom(names...), newOracle(names)
		merger := merge.New([]merge.Source{{Name: "file"}, {Name: "http"}, {Name: "api"}}, merge.Stored{})
		consumer := mergetest.At(&history.State{})
		number := uint64(0)
		for range rapid.IntRange(1, 20).Draw(t, "sets") {
			set := random.Draw(t)
			want := oracle.apply(set)
			rev := merger.Apply(set)
			if rev != nil {
				if number++; rev.Number != number {
					t.Fatalf("revision number %d; want %d", rev.Number, number)
				}
				if err := consumer.Apply(rev.Changes); err != nil {
					t.Fatalf("revision %d: a consumer can't apply it: %v", rev.Number, err)
				}
			}
			if diff := cmp.Diff(want, opsOf(rev)); diff != "" {
				t.Fatalf("ops of the set of %s in second %d (-want +got):\n%s", set.Source, set.ReadTime.Unix(), diff)
			}
			if diff := cmp.Diff(oracle.describe(), describe(consumer)); diff != "" {
				t.Fatalf("pods after the set of %s in second %d (-want +got):\n%s", set.Source, set.ReadTime.Unix(), diff)
			}
			if again := merger.Apply(repeated(set)); again != nil {
				t.Fatalf("the same set again gives %v; want silence (G5)", opsOf(again))
			}
		}
	})
}

// repeated is the set with all its origins under new pointers.
func repeated(set manifest.Set) manifest.Set {
	origins := make([]*manifest.Origin, len(set.Origins))
	for i, o := range set.Origins {
		fresh := *o
		origins[i] = &fresh
	}
	set.Origins = origins
	return set
}

// opsOf are a revision's ops in words, sorted.
func opsOf(rev *revision.Revision) []string {
	out := []string{}
	if rev == nil {
		return out
	}
	for _, c := range rev.Changes {
		if len(c.Pods) == 0 {
			out = append(out, fmt.Sprintf("%s %s -", c.Op, c.Source))
		}
		for _, p := range c.Pods {
			out = append(out, fmt.Sprintf("%s %s %s %s", c.Op, c.Source, p, p.UID()))
		}
	}
	slices.Sort(out)
	return out
}

// describe tells each pod's identity, content and the first-seen second.
func describe(consumer *mergetest.Consumer) map[string]string {
	out := map[string]string{}
	for uid, p := range consumer.Pods {
		seen, _ := time.Parse(time.RFC3339Nano, p.Object.Annotations[manifest.SeenAnnotation])
		out[string(uid)] = line(p.Source, p.Object.Name, p.SpecDigest, p.StatusDigest, seen)
	}
	return out
}

func line(source, name, spec, status string, seen time.Time) string {
	return fmt.Sprintf("%s %s spec %s status %s seen %d", source, name, spec[:15], status[:15], seen.Unix())
}

// oracle does the merge the simple way: it works everything out anew for each set.
type oracle struct {
	sources []string
	offers  map[string]map[string][]*manifest.Pod // by source and origin
	order   map[string][]string                   // the origins of a source
	served  map[string]oraclePod
	good    map[string]map[string]bool // by source and origin: it could be used in full since it is there
	ready   map[string]bool
}

type oraclePod struct {
	*manifest.Pod
	source string
	seen   time.Time
}

func newOracle(sources []string) *oracle {
	return &oracle{
		sources: sources, offers: map[string]map[string][]*manifest.Pod{}, order: map[string][]string{},
		served: map[string]oraclePod{}, good: map[string]map[string]bool{}, ready: map[string]bool{},
	}
}

func (o *oracle) apply(set manifest.Set) []string {
	if set.Err != nil {
		return []string{}
	}
	o.take(set)
	wasReady := o.ready[set.Source]
	o.ready[set.Source] = wasReady || !slices.Contains(slices.Collect(maps.Values(o.good[set.Source])), false)
	wanted := o.arbitrate()
	ops, spoke := []string{}, wasReady || !o.ready[set.Source]
	tell := func(op string, p oraclePod) {
		ops = append(ops, fmt.Sprintf("%s %s %s/%s %s", op, p.source, p.Namespace, p.Name, p.UID))
		if p.source == set.Source && (op == "ADD" || op == "UPDATE" || op == "DELETE") {
			spoke = true
		}
	}
	for uid, old := range o.served {
		if next, ok := wanted[uid]; !ok || next.source != old.source || next.Name != old.Name {
			tell("REMOVE", old)
			delete(o.served, uid)
		}
	}
	for uid, next := range wanted {
		old, held := o.served[uid]
		next.seen = old.seen
		switch {
		case !held:
			next.seen = set.ReadTime
			tell("ADD", next)
		case old.SpecDigest != next.SpecDigest && next.DeletionTimestamp != nil:
			tell("DELETE", next)
		case old.SpecDigest != next.SpecDigest:
			tell("UPDATE", next)
		case old.StatusDigest != next.StatusDigest:
			tell("RECONCILE", next)
		}
		o.served[uid] = next
	}
	if !spoke {
		ops = append(ops, "ADD "+set.Source+" -")
	}
	slices.Sort(ops)
	return ops
}

// take puts the set in the place of the source's one before; held origins keep what they don't define anew.
func (o *oracle) take(set manifest.Set) {
	next, order, good := map[string][]*manifest.Pod{}, []string{}, map[string]bool{}
	for _, origin := range set.Origins {
		pods := slices.Clone(origin.Pods)
		if origin.Held {
			for _, old := range o.offers[set.Source][origin.Name] {
				if !slices.ContainsFunc(origin.Pods, func(p *manifest.Pod) bool { return p.UID == old.UID || p.Name == old.Name }) {
					pods = append(pods, old)
				}
			}
		}
		good[origin.Name] = !origin.Held || o.good[set.Source][origin.Name]
		next[origin.Name], order = pods, append(order, origin.Name)
	}
	o.offers[set.Source], o.order[set.Source], o.good[set.Source] = next, order, good
}

// arbitrate gives each UID and each name, except of mirror pods, to the first that wants it.
func (o *oracle) arbitrate() map[string]oraclePod {
	wanted, names := map[string]oraclePod{}, map[string]bool{}
	for _, source := range o.sources {
		for _, origin := range o.order[source] {
			for _, p := range o.offers[source][origin] {
				_, mirror := p.Annotations[manifest.MirrorAnnotation]
				if _, taken := wanted[string(p.UID)]; taken || names[p.Name] && !mirror {
					continue
				}
				wanted[string(p.UID)] = oraclePod{Pod: p, source: source}
				if !mirror {
					names[p.Name] = true
				}
			}
		}
	}
	return wanted
}

func (o *oracle) describe() map[string]string {
	out := map[string]string{}
	for _, uid := range slices.Sorted(maps.Keys(o.served)) {
		p := o.served[uid]
		out[uid] = line(p.source, p.Name, p.SpecDigest, p.StatusDigest, p.seen)
	}
	return out
}
