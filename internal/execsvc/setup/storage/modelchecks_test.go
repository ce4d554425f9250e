package storage

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// checkRecord checks that the intent is on the disk: a crash now would find it.
func (w *world) checkRecord(op operation) {
	if op.kind == waitAttached {
		return
	}
	if w.disk == nil {
		w.fatalf("%v without a record", op)
	}
	v, err := record.Unmarshal(w.disk)
	if err != nil {
		w.fatalf("%v", err)
	}
	onDisk := state{Volume: v}
	switch op.kind {
	case markInUse, dropInUse:
		if v.Use != w.s.Use {
			w.fatalf("%v while the record says %q", op, v.Use)
		}
	default:
		if found, ok := pending(&onDisk); !ok || found != op {
			w.fatalf("%v while the record says %v", op, found)
		}
		if got, want := call(&onDisk, op), call(&w.s, op); got != want {
			w.fatalf("%v: the record has %v, the call %v", op, got, want)
		}
	}
}

// checkCall checks the rules of calls to a driver.
func (w *world) checkCall(c sent) {
	if w.running != nil && *w.running != c {
		w.fatalf("%v is called while the driver still executes %v", c, *w.running)
	}
	if earlier, ok := w.unsure[c.op]; ok && isMaking(c.op) && earlier != c {
		w.fatalf("%v is repeated as %v", earlier, c)
	}
	if isMaking(c.op) {
		if _, undo := w.unsure[operation{undoOf(c.op.kind), c.op.target}]; undo {
			w.fatalf("%v before its removal is confirmed", c)
		}
		if w.unique != "" && (!w.inUse || c.context != fmt.Sprint(map[string]string{"n": fmt.Sprint(w.attachment)})) {
			w.fatalf("%v of a volume that isn't in use, or with the context of an earlier attachment (now %d)", c, w.attachment)
		}
		if len(w.litter) > 0 {
			w.fatalf("%v before the remains of another boot are cleaned up: %v", c, w.litter)
		}
	}
	if isMaking(c.op) {
		w.checkContext(c)
	}
	switch c.op.kind {
	case stage:
		if w.staged != "" && w.staged != c.args {
			w.fatalf("staged with %q, and now with %q", w.staged, c.args)
		}
	case publish:
		if _, unsure := w.unsure[operation{kind: stage}]; w.stages && (w.staged == "" || unsure) {
			w.fatalf("published before it is staged")
		}
		if was, ok := w.published[c.op.target]; ok && was != c.args {
			w.fatalf("published with %q, and now with %q", was, c.args)
		}
	case republish:
		if was, ok := w.published[c.op.target]; !ok || was != c.args {
			w.fatalf("published with %q (%v), and repeated with %q", was, ok, c.args)
		}
	case unstage:
		if len(w.published) > 0 || slices.ContainsFunc(w.unsureOps(), func(o operation) bool { return o.kind == publish || o.kind == unpublish }) {
			w.fatalf("unstaged while it is published: %v, unsure: %v", w.published, w.unsure)
		}
	}
}

// checkStaged checks that the first publication is of a volume that was staged for one of the pods. If the driver has refused to unstage it,
// pods get it as it is, unless they can't use it so.
func (w *world) checkStaged(op operation, was record.Call) {
	if w.refused && !w.exact || op.kind != publish || !w.s.Stages || was.Phase != record.None || len(w.s.Publications) > 1 {
		return
	}
	for _, want := range w.s.wants {
		if want.volume.StageArgs == w.staged {
			return
		}
	}
	w.fatalf("%v of a volume that is staged for no pod, with %q", op, w.staged)
}

// checkContext checks that the volume is mounted with no other SELinux context, and that the state has it.
func (w *world) checkContext(c sent) {
	is := lastWord(c.args)
	if is != w.s.SELinuxContext {
		w.fatalf("%v while the record has the context %q", c, w.s.SELinuxContext)
	}
	has := append(slices.Collect(maps.Values(w.published)), w.staged)
	for op, other := range w.unsure {
		if isMaking(op) {
			has = append(has, other.args)
		}
	}
	for _, args := range has {
		if args != "" && lastWord(args) != is {
			w.fatalf("%v of a volume that is mounted with another context: %q", c, args)
		}
	}
}

func lastWord(text string) string { return text[strings.LastIndex(text, " ")+1:] }

func (w *world) unsureOps() []operation {
	var ops []operation
	for o := range w.unsure {
		ops = append(ops, o)
	}
	return ops
}
