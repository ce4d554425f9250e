package stream

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/podstream/podstream/client/position"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestPositionsNeverGoBack: whatever revisions come, over any streams and restarts of the consumer, a position of the consumer
// is never lowered, replaced or dropped, unless podconfigd has confirmed it, replaced the cluster, or, as the same instance,
// doesn't list the source any more. Pods of a source that podconfigd is behind of never change.
func TestPositionsNeverGoBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := NewHeld(nil, nil)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				h.Begin(nil)
				continue
			case 1:
				// It comes back from its store.
				kept := h.Resume()
				cursor, err := ParseCursor(FormatCursor(kept.GetResumeAfter()))
				if err != nil && kept.GetResumeAfter().GetInstanceId() != "" {
					t.Fatal(err)
				}
				h = NewHeld(cursor, kept.GetKnownPods())
				continue
			}
			r := drawRevision(t)
			had, instance, names := h.claims, h.Cursor().GetInstanceId(), podNames(h)
			if h.Check(r) != nil {
				continue
			}
			h.Apply(h.Interpret(r))
			sent, err := position.FromProto(r.Cursor.GetPositions())
			if err != nil {
				t.Fatalf("Check accepts invalid positions: %v", err)
			}
			same := r.Cursor == nil || r.Cursor.GetInstanceId() == instance
			for _, source := range had.Sources() {
				excused := sent.Of(source) != nil && position.Behind(sent.Of(source), had.Of(source)) == nil
				if reason := position.Behind(h.claims.Of(source), had.Of(source)); reason != nil && !excused {
					if !same || len(h.claims.Of(source)) > 0 || !r.listsSources() || r.lists(source) || h.Count(source) > 0 {
						t.Fatalf("after %v of %v the position of %s is behind %v: %s", r, instance, source, had.Of(source), reason.Text)
					}
				}
				if !excused && !same && podNames(h)[source] != names[source] {
					t.Fatalf("%v of another podconfigd changed the pods of %s", r, source)
				}
			}
			if len(h.claims) > position.MaxPositions || len(h.claims) != len(h.Cursor().GetPositions()) {
				t.Fatalf("the claims are %v, and the cursor %v", h.claims, h.Cursor())
			}
		}
	})
}

// podNames are the pods of each source.
func podNames(h *Held) map[string]string {
	out := map[string]string{}
	for _, k := range h.Known() {
		out[k.GetSource()] += k.GetUid() + "/" + k.GetSpecDigest() + " "
	}
	return out
}

// drawRevision draws a revision of any podconfigd: an old one, one that is behind, or one that lies.
func drawRevision(t *rapid.T) *Revision {
	r := &Revision{}
	for range rapid.IntRange(0, 2).Draw(t, "ops") {
		op := rapid.SampledFrom([]podconfigv1.PodOperation{opAdd, opUpdate, opDelete, opRemove, opSet}).Draw(t, "op")
		source := rapid.SampledFrom([]string{"api", "relay"}).Draw(t, "source")
		pod := rapid.SampledFrom([]string{source + "1/1", source + "1/2", source + "2/1"}).Draw(t, "pod")
		r.Updates = append(r.Updates, update(op, source, rapid.Bool().Draw(t, "ready"), pod))
	}
	listed := sources(rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"api", "relay", "file"}), 0, 3, rapid.ID).Draw(t, "sources")...)
	switch rapid.IntRange(0, 2).Draw(t, "kind") {
	case 0:
		r.Synced = &podconfigv1.Synced{Sources: listed}
	case 1:
		r.Heartbeat = &podconfigv1.Heartbeat{Sources: listed}
	}
	if rapid.IntRange(0, 5).Draw(t, "without a cursor") == 0 {
		return r
	}
	r.from(rapid.SampledFrom([]string{"", "A", "B"}).Draw(t, "instance"))
	for range rapid.IntRange(0, 3).Draw(t, "positions") {
		p := &podconfigv1.SourcePosition{
			Source:          rapid.SampledFrom([]string{"api", "relay"}).Draw(t, "of"),
			Cluster:         rapid.SampledFrom([]string{"c", "c", "d"}).Draw(t, "cluster"),
			Epoch:           rapid.Uint64Max(1).Draw(t, "epoch"),
			ResourceVersion: rapid.SampledFrom([]string{"9", "10", "11", "100", "", "-1", "99999999999999999999"}).Draw(t, "version"),
			Confirmed:       rapid.IntRange(0, 4).Draw(t, "confirmed") == 0,
		}
		if rapid.IntRange(0, 4).Draw(t, "replaces") == 0 {
			p.ReplacedClusters = []string{rapid.SampledFrom([]string{"c", "d"}).Draw(t, "replaced")}
		}
		r.Cursor.Positions = append(r.Cursor.Positions, p)
	}
	return r
}
