package position

import (
	"fmt"
	"testing"
)

// TestBounded: of more positions than a message may have, those of whole sources are kept, first those of the sources that the
// consumer has claimed, and always the same ones. The rest can be read.
func TestBounded(t *testing.T) {
	var all Positions
	for i := range 40 {
		for _, cluster := range []string{"c", "d"} {
			all = append(all, Position{Source: fmt.Sprintf("relay:%02d", i), Cluster: cluster, ResourceVersion: "1"})
		}
	}
	few := all[:MaxPositions]
	if got := few.Bounded(nil); len(got) != MaxPositions {
		t.Errorf("of %d positions %d are kept", len(few), len(got))
	}
	got := all.Bounded(nil)
	if _, err := FromProto(got.Proto()); err != nil || len(got) != MaxPositions || len(got.Of("relay:31")) != 2 || len(got.Of("relay:32")) != 0 {
		t.Errorf("%d positions are kept: %v (%v); want those of the first 32 sources", len(got), got.Sources(), err)
	}
	got = all.Bounded(all.Of("relay:39"))
	if len(got.Of("relay:39")) != 2 || len(got.Of("relay:30")) != 2 || len(got.Of("relay:31")) != 0 {
		t.Errorf("kept are %v; want relay:39 and the first 31", got.Sources())
	}
	if _, err := FromProto(all.Proto()); err == nil {
		t.Error("80 positions are read; want an error, as without the bound")
	}
}
