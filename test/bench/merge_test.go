package bench

import (
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/store"
	"github.com/podstream/podstream/test/bench/workload"
)

// BenchmarkMerge changes one of N pods and measures each step of its way to the stream, in turn: parse of its
// file, digests (a part of the parse), merge of the full set, and commit, with and without waiting for the
// disk. For comparison it measures what a merge without digests must do: compare all pods completely with the
// pods of another reading. The figures are medians; whole/merge is the median of the ratios.
func BenchmarkMerge(b *testing.B) {
	for _, pods := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) { benchmarkMerge(b, pods) })
	}
}

func benchmarkMerge(b *testing.B, pods int) {
	set, changing := workload.Set(pods), pods/2
	versions := [2]*manifest.Origin{set.Origins[changing], workload.Origin(workload.Pod(changing, 1))}
	file, err := yaml.Marshal(workload.Pod(changing, 1))
	if err != nil {
		b.Fatal(err)
	}
	merger := merge.New([]merge.Source{{Name: workload.Source}}, merge.Stored{})
	first := merger.Apply(set)
	synced, unsynced := openStore(b, false, first), openStore(b, true, first)
	was, is := reading(pods), reading(pods)

	var turns []turn
	for i := 0; b.Loop(); i++ {
		pod := versions[(i+1)%2]
		set.Origins[changing], set.ReadTime = pod, time.Unix(int64(i), 0)
		var t turn
		var rev *revision.Revision
		t.merge = timed(func() { rev = merger.Apply(set) })
		if rev == nil || len(rev.Changes) != 1 || len(rev.Changes[0].Pods) != 1 {
			b.Fatalf("revision %v; want one UPDATE of one pod", rev)
		}
		t.parse = timed(func() {
			if o := manifest.Parse(file, manifest.Options{Origin: pod.Name, Node: "node"}); len(o.Pods) != 1 {
				b.Fatalf("the file can't be used: %v", o.Findings)
			}
		})
		t.digest = timed(func() {
			_, err1 := manifest.SpecDigest(pod.Pods[0].Pod)
			if _, err2 := manifest.StatusDigest(pod.Pods[0].Pod); err1 != nil || err2 != nil {
				b.Fatal(err1, err2)
			}
		})
		t.synced = timed(func() { commit(b, synced, rev) })
		t.unsynced = timed(func() { commit(b, unsynced, rev) })
		t.whole = timed(func() { differing(was, is) })
		turns = append(turns, t)
	}
	report := func(unit string, value func(turn) time.Duration) {
		b.ReportMetric(middle(turns, func(t turn) float64 { return float64(value(t).Nanoseconds()) / 1e3 }), unit)
	}
	report("µs/merge", func(t turn) time.Duration { return t.merge })
	report("µs/parse", func(t turn) time.Duration { return t.parse })
	report("µs/digest", func(t turn) time.Duration { return t.digest })
	report("µs/commit-fsync", func(t turn) time.Duration { return t.synced })
	report("µs/commit-nosync", func(t turn) time.Duration { return t.unsynced })
	report("µs/whole-compare", func(t turn) time.Duration { return t.whole })
	b.ReportMetric(middle(turns, func(t turn) float64 { return float64(t.whole) / float64(t.merge) }), "whole/merge")
	b.ReportMetric(0, "ns/op") // The time of all steps together has no meaning.
}

// turn is the duration of each step in one round.
type turn struct{ parse, digest, merge, synced, unsynced, whole time.Duration }

func timed(step func()) time.Duration {
	start := time.Now()
	step()
	return time.Since(start)
}

func openStore(b *testing.B, noSync bool, first *revision.Revision) *store.Store {
	s, _, err := store.Open(store.Config{Path: filepath.Join(b.TempDir(), "store.db"), NoSync: noSync})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	commit(b, s, first)
	return s
}

func commit(b *testing.B, s *store.Store, rev *revision.Revision) {
	if err := s.Commit([]*revision.Revision{rev}); err != nil {
		b.Fatal(err)
	}
}

// reading returns the pods of one reading of their files, which shares no memory with another reading.
func reading(pods int) []*v1.Pod {
	out := make([]*v1.Pod, pods)
	for n := range out {
		out[n] = workload.Pod(n, 0)
	}
	return out
}

// differing counts the pods that differ in a field that produces an update.
func differing(was, is []*v1.Pod) int {
	n := 0
	for i, a := range was {
		b := is[i]
		if !reflect.DeepEqual(&a.Spec, &b.Spec) || !reflect.DeepEqual(a.Labels, b.Labels) || !reflect.DeepEqual(a.Annotations, b.Annotations) {
			n++
		}
	}
	return n
}
