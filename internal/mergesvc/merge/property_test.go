package merge_test

import (
	"errors"
	"fmt"
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

// TestMergeAgainstOracle merges random sets of sources that are added, removed and reordered, and compares each
// revision with an oracle that computes everything each time. It also checks G5: equal input, with new
// pointers, produces nothing.
func TestMergeAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := []string{"file", "http", "api"}
		names := all
		random, oracle := mergetest.NewRandom(all...), newOracle(names)
		merger := merge.New(named(names), merge.Stored{})
		consumer := mergetest.At(&history.State{})
		number := uint64(0)
		check := func(what string, want []string, rev *revision.Revision) {
			if rev != nil {
				if number++; rev.Number != number {
					t.Fatalf("revision number %d; want %d", rev.Number, number)
				}
				if err := consumer.Apply(rev.Changes); err != nil {
					t.Fatalf("revision %d: a consumer can't apply it: %v", rev.Number, err)
				}
				exclusive(t, consumer)
			}
			if diff := cmp.Diff(want, opsOf(rev)); diff != "" {
				t.Fatalf("ops of %s (-want +got):\n%s", what, diff)
			}
			if diff := cmp.Diff(oracle.describe(), describe(consumer)); diff != "" {
				t.Fatalf("pods after %s (-want +got):\n%s", what, diff)
			}
		}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			if rapid.IntRange(0, 4).Draw(t, "configure") == 0 {
				before := names
				names = rapid.SliceOfNDistinct(rapid.SampledFrom(all), 0, len(all), rapid.ID).Draw(t, "sources")
				want, rev := oracle.configure(names), merger.Configure(named(names))
				if changed := !slices.Equal(before, names); changed != (rev != nil) || changed && !slices.Equal(rev.Sources, names) {
					t.Fatalf("from the sources %v to %v: the revision is %v; want one that names them, if and only if they changed", before, names, rev)
				}
				check(fmt.Sprintf("the sources %v", names), want, rev)
				if again := merger.Configure(named(names)); again != nil {
					t.Fatalf("the same sources again give %v; want silence (G5)", opsOf(again))
				}
			}
			set := random.Draw(t)
			check(fmt.Sprintf("the set of %s in second %d", set.Source, set.ReadTime.Unix()), oracle.apply(set), merger.Apply(set))
			if again := merger.Apply(repeated(set)); again != nil {
				t.Fatalf("the same set again gives %v; want silence (G5)", opsOf(again))
			}
		}
	})
}

func named(names []string) []merge.Source {
	out := make([]merge.Source, 0, len(names))
	for _, n := range names {
		out = append(out, merge.Source{Name: n})
	}
	return out
}

// exclusive fails if two pods have one full name, unless they are mirror pods. A Consumer can't have two pods
// with one UID.
func exclusive(t *rapid.T, consumer *mergetest.Consumer) {
	holders := map[string]*revision.Pod{}
	for _, p := range consumer.Pods {
		if _, mirror := p.Object.Annotations[manifest.MirrorAnnotation]; mirror {
			continue
		}
		if other := holders[p.FullName()]; other != nil {
			t.Fatalf("%s (%s of %s) and %s (%s of %s) are served at once", p, p.UID(), p.Source, other, other.UID(), other.Source)
		}
		holders[p.FullName()] = p
	}
}

// TestCloneIsApart: changes of a clone don't change the Merger, nor the reverse. A preview shows the present
// state.
func TestCloneIsApart(t *testing.T) {
	m := merge.New(named([]string{"file", "api"}), merge.Stored{})
	m.Apply(mergetest.Set("file", 1, "a: web(uid=u1)"))
	m.Apply(mergetest.Set("api", 2, "x: web(uid=u2)"))
	clone := m.Clone()
	wantOps(t, "the clone loses a source", clone.Configure(named([]string{"api"})), "ADD api default/web u2", "REMOVE file default/web u1")
	wantOps(t, "so does the Merger, later", m.Configure(named([]string{"api"})), "ADD api default/web u2", "REMOVE file default/web u1")
	later := m.Clone()
	wantOps(t, "the Merger has it again", m.Configure(named([]string{"file", "api"})))
	if _, err := later.Preview("file", nil, nil, time.Unix(3, 0)); !errors.Is(err, merge.ErrNoSource) {
		t.Errorf("a preview of a removed source fails with %v; want %v", err, merge.ErrNoSource)
	}
	if _, err := m.Preview("file", nil, nil, time.Unix(3, 0)); !errors.Is(err, merge.ErrNotRead) {
		t.Errorf("a preview of a source that is back fails with %v; want %v", err, merge.ErrNotRead)
	}
}

func wantOps(t *testing.T, what string, rev *revision.Revision, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), opsOf(rev)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// repeated returns the set with new pointers for all origins.
func repeated(set manifest.Set) manifest.Set {
	origins := make([]*manifest.Origin, len(set.Origins))
	for i, o := range set.Origins {
		fresh := *o
		origins[i] = &fresh
	}
	set.Origins = origins
	return set
}

// opsOf returns a revision's ops as text, sorted.
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

// describe returns each pod's identity, content and the first-seen second.
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
