package merge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
)

// The cost of one merge that changes one of N pods: it should follow the change, not N.
func BenchmarkMergeOneChange10(b *testing.B)   { benchmarkMergeOneChange(b, 10) }
func BenchmarkMergeOneChange100(b *testing.B)  { benchmarkMergeOneChange(b, 100) }
func BenchmarkMergeOneChange1000(b *testing.B) { benchmarkMergeOneChange(b, 1000) }

func benchmarkMergeOneChange(b *testing.B, pods int) {
	var text strings.Builder
	for i := range pods {
		fmt.Fprintf(&text, "%04d.yaml: pod-%d()\n", i, i)
	}
	set := mergetest.Set("file", 1, text.String())
	// The pod in the middle has two versions that take turns.
	changing, err := mergetest.Origins(fmt.Sprintf("%04d.yaml: pod-%d(image=other)", pods/2, pods/2))
	if err != nil {
		b.Fatal(err)
	}
	versions := [2]*manifest.Origin{changing[0], set.Origins[pods/2]}
	merger := merge.New([]merge.Source{{Name: "file"}, {Name: "api"}}, merge.Stored{})
	merger.Apply(set)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		set.Origins[pods/2] = versions[i%2]
		set.ReadTime = time.Unix(int64(i), 0)
		if rev := merger.Apply(set); rev == nil || len(rev.Changes) != 1 || len(rev.Changes[0].Pods) != 1 {
			b.Fatalf("revision %v; want one UPDATE of one pod", rev)
		}
	}
}
