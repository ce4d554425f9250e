package stream

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestObjectsConverge: whatever a consumer holds, however often its streams break, and whether podconfigd sends a
// difference or everything, in the end it holds podconfigd's objects, once all sources are ready.
func TestObjectsConverge(t *testing.T) {
	names := []string{"file/a", "file/b", "api/c", "api/d"}
	rapid.Check(t, func(r *rapid.T) {
		there, h := map[string]string{}, heldOf(nil, rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"file/a=1", "api/c=2", "http/x=1"}),
			0, 3, rapid.ID[string]).Draw(r, "known")...)
		first := knownTexts(h.Known())
		for revision := range uint64(rapid.IntRange(1, 6).Draw(r, "streams")) {
			for _, name := range names {
				if digest := rapid.SampledFrom([]string{"as it was", "", "1", "2"}).Draw(r, name); digest == "" {
					delete(there, name)
				} else if digest != "as it was" {
					there[name] = digest
				}
			}
			ready := rapid.Bool().Draw(r, "ready")
			known := h.Begin(nil).GetKnownObjects()
			updates := caughtUp(there, known, ready)
			if len(known) == 0 || rapid.Bool().Draw(r, "everything") {
				updates = []*podconfigv1.ObjectUpdate{everything(there, ready)}
			}
			if !rapid.Bool().Draw(r, "breaks early") {
				h.Apply(h.Interpret(objectsUpTo(revision+1, updates...).synced(reported(ready)...)))
			}
		}
		known := h.Begin(nil).GetKnownObjects()
		updates := caughtUp(there, known, true)
		if len(known) == 0 {
			updates = []*podconfigv1.ObjectUpdate{everything(there, true)}
		}
		h.Apply(h.Interpret(objectsUpTo(99, updates...).synced(reported(true)...)))
		var want []string
		for name, digest := range there {
			want = append(want, name+"="+digest)
		}
		// As they come: by source and name.
		slices.SortFunc(want, strings.Compare)
		if got := knownTexts(h.Known()); got != strings.Join(want, " ") {
			r.Fatalf("held in the end are %q; want %q; at first they were %q", got, want, first)
		}
	})
}

// reported are the sources; api may not be ready.
func reported(ready bool) []string {
	if ready {
		return []string{"api", "file"}
	}
	return []string{"api?", "file"}
}

// everything is the SET of podconfigd's objects.
func everything(there map[string]string, ready bool) *podconfigv1.ObjectUpdate {
	set := objectOp(objectSet)
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if ready || !strings.HasPrefix(name, "api/") {
			set.Objects = append(set.Objects, anObject(name+"="+there[name]))
		}
	}
	return set
}

// caughtUp is the difference to the known objects. It leaves out a source that isn't ready, or that isn't configured
// while another one isn't ready.
func caughtUp(there map[string]string, known []*podconfigv1.KnownObject, ready bool) []*podconfigv1.ObjectUpdate {
	remove, put := objectOp(objectRemove), objectOp(objectPut)
	named := map[string]string{}
	for _, k := range known {
		name := objectText(k.GetRef(), "")
		named[name] = k.GetDigest()
		if there[name] == "" && (ready || strings.HasPrefix(name, "file/")) {
			remove.Objects = append(remove.Objects, anObject(name))
		}
	}
	for _, o := range everything(there, ready).GetObjects() {
		if named[objectText(o.GetRef(), "")] != o.GetDigest() {
			put.Objects = append(put.Objects, o)
		}
	}
	return []*podconfigv1.ObjectUpdate{remove, put}
}
