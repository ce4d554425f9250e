package merge_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/test/bench/workload"
)

// BenchmarkMergeOneChange merges the full set of N pods of three containers, one of which has changed. The cost
// should depend on the change, not on N.
func BenchmarkMergeOneChange(b *testing.B) {
	for _, pods := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			set, changing := workload.Set(pods), pods/2
			// The pod in the middle has two versions, which are used in turn.
			versions := [2]*manifest.Origin{set.Origins[changing], workload.Origin(workload.Pod(changing, 1))}
			merger := merge.New([]merge.Source{{Name: workload.Source}, {Name: "api"}}, merge.Stored{})
			merger.Apply(set)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				set.Origins[changing], set.ReadTime = versions[(i+1)%2], time.Unix(int64(i), 0)
				if rev := merger.Apply(set); rev == nil || len(rev.Changes) != 1 || len(rev.Changes[0].Pods) != 1 {
					b.Fatalf("revision %v; want one UPDATE of one pod", rev)
				}
			}
		})
	}
}
