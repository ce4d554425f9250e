package stream

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestSnapshotsConverge: a podconfigd with changing pods sends only SETs, over streams that break, with sources that
// are ready or not. Every op fits the pods of a strict consumer; once all sources are ready the consumer holds
// podconfigd's pods, and Held agrees with it all the time.
func TestSnapshotsConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := NewHeld(nil, nil)
		consumer := strict{}
		for n := range rapid.IntRange(1, 12).Draw(t, "revisions") {
			if rapid.IntRange(0, 3).Draw(t, "the stream breaks") == 0 {
				h.Begin(nil)
			}
			served := draw(t)
			ready := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"file", "api"}), rapid.ID).Draw(t, "ready")
			r := ops(setOf(slices.Contains(ready, "file"), served))
			r.Cursor = at(uint64(n + 1))
			if rapid.Bool().Draw(t, "synced") {
				r.Synced = readiness(ready...).Synced
			}
			consumer.take(t, h, r)
		}
		served := draw(t)
		end := readiness("file", "api")
		end.Updates = []*podconfigv1.PodUpdate{setOf(true, served)}
		consumer.take(t, h, end)
		want := strict{}
		for _, p := range served {
			want[p.GetRef().GetUid()] = knownPod(p)
		}
		if got, want := fmt.Sprint(consumer.words()), fmt.Sprint(want.words()); got != want {
			t.Fatalf("in the end the consumer holds\n%v\nwant\n%v", got, want)
		}
	})
}

// readiness is the readiness of file and api.
func readiness(ready ...string) *Revision {
	texts := []string{"-file", "-api"}
	for i, name := range []string{"file", "api"} {
		if slices.Contains(ready, name) {
			texts[i] = name
		}
	}
	return synced(texts...)
}

// draw draws pods of both sources, whose UIDs are unique.
func draw(t *rapid.T) []*podconfigv1.Pod {
	var out []*podconfigv1.Pod
	for _, uid := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), rapid.ID).Draw(t, "uids") {
		text := fmt.Sprintf("%s/%d/%d", uid, rapid.IntRange(1, 2).Draw(t, "spec"), rapid.IntRange(1, 2).Draw(t, "status"))
		if rapid.IntRange(0, 3).Draw(t, "deleted") == 0 {
			text += "/deleted"
		}
		p := pods(rapid.SampledFrom([]string{"file", "api"}).Draw(t, "source"), text)[0]
		if rapid.IntRange(0, 3).Draw(t, "renamed") == 0 {
			p.Ref.Name = "other"
		}
		out = append(out, p)
	}
	return out
}

// strict is a consumer that keeps pods by UID and rejects ops that don't fit.
type strict map[string]*podconfigv1.KnownPod

func (c strict) take(t *rapid.T, h *Held, r *Revision) {
	o := h.Interpret(r)
	for _, u := range o.Ops {
		if u.GetOp() == opSet {
			t.Fatalf("a SET got through")
		}
		for _, p := range u.GetPods() {
			uid := p.GetRef().GetUid()
			old, ok := c[uid]
			switch {
			case u.GetSource() != p.GetSource():
				t.Fatalf("%v of %s has a pod of %s", u.GetOp(), u.GetSource(), p.GetSource())
			case ok != (u.GetOp() != opAdd) || ok && (old.GetSource() != p.GetSource() || old.GetName() != p.GetRef().GetName()):
				t.Fatalf("%v of %v; the consumer holds %v", u.GetOp(), p, old)
			case u.GetOp() == opRemove:
				delete(c, uid)
				continue
			case ok && same(old, p):
				t.Fatalf("%v of %v, which is held as it is", u.GetOp(), p)
			case u.GetOp() == opReconcile && old.GetSpecDigest() != p.GetSpecDigest():
				t.Fatalf("RECONCILE of %v, whose spec was %s", p, old.GetSpecDigest())
			}
			c[uid] = knownPod(p)
		}
	}
	h.Apply(o)
	held := strict{}
	for _, p := range h.Known() {
		held[p.GetUid()] = p
	}
	if got, want := fmt.Sprint(held.words()), fmt.Sprint(c.words()); got != want || len(held) != len(h.Known()) {
		t.Fatalf("Held has\n%v\nthe consumer\n%v", got, want)
	}
}

func (c strict) words() []string {
	var out []string
	for _, uid := range slices.Sorted(maps.Keys(c)) {
		p := c[uid]
		out = append(out, fmt.Sprint(p.GetSource(), "/", uid, "/", p.GetName(), "/", p.GetSpecDigest(), "/", p.GetStatusDigest()))
	}
	return out
}
