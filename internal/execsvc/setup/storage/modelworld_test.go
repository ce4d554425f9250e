package storage

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// step makes one operation, as the executor does, with crashes and refusals at each point. want is the outcome; nil
// draws one.
func (w *world) step(always *Outcome, mayCrash bool) bool {
	ops := w.candidates()
	if len(ops) == 0 {
		w.write() // The executor repeats a write that failed.
		return false
	}
	op := rapid.SampledFrom(ops).Draw(w.r, "operation")
	const nowhere, beforeRecord, beforeCall, afterCall = 0, 1, 2, 3
	crash := nowhere
	if mayCrash {
		crash = rapid.SampledFrom([]int{nowhere, nowhere, nowhere, nowhere, beforeRecord, beforeCall, afterCall}).Draw(w.r, "crash")
	}
	if crash == beforeRecord {
		w.load()
		return true
	}
	was := call(&w.s, op)
	begin(&w.s, op)
	if mayCrash && rapid.IntRange(0, 9).Draw(w.r, "disk full") == 0 {
		if rapid.Bool().Draw(w.r, "it is written in spite of the error") {
			w.write()
		}
		finish(&w.s, op, was, NotSent, nil)
		return true
	}
	if w.broken != "no record before a call" {
		w.write()
	}
	if crash == beforeCall {
		w.load()
		return true
	}
	refusable := op.kind == unstage && w.isRefusable()
	out := w.perform(op, was, always)
	if crash == afterCall {
		w.load()
		return true
	}
	attachment := map[string]string{"n": fmt.Sprint(w.attachment)}
	if w.broken == "a final answer clears an earlier uncertain one" && out == Final && isMaking(op) {
		was = record.Call{}
	}
	gone := out == Unrepeatable && w.s.useless(op, was)
	finish(&w.s, op, was, out, attachment)
	if p := w.s.Publication(op.target); op.kind == republish {
		if w.broken == "a failed repetition unpublishes" && out == Final {
			p.Phase = record.Undoing
		}
		if !isDone(p) && !gone {
			w.fatalf("it isn't published after its call was repeated: %+v", p)
		}
	}
	if op.kind == unstage && (out == succeeded || refusable && (out == Final || out == Uncertain)) {
		w.refused = out != succeeded
	}
	if op.kind == unstage && refusable && (out == Final || out == Uncertain) {
		// The driver has refused it, and does no more: the same volume may be staged again.
		again := operation{kind: stage}
		delete(w.unsure, op)
		w.unsure[again] = w.sent(again)
	}
	stored := !mayCrash || rapid.IntRange(0, 9).Draw(w.r, "no space for the answer") > 0
	if stored {
		w.write()
	}
	if _, earlier := w.unsure[op]; earlier && stored && (out == Final || gone) && isMaking(op) {
		w.unsure[operation{undoOf(op.kind), op.target}] = sent{} // Only an undo may follow.
		w.undoFirst = w.undoFirst || op.kind == stage
	}
	return true
}

// isRefusable reports whether nothing but the lack of pods has the volume unstaged, also if earlier calls had no answer.
func (w *world) isRefusable() bool {
	return !w.undoFirst && !w.litter[operation{kind: unstage}]
}

// candidates returns the operations, and those of a planted fault.
func (w *world) candidates() []operation {
	ops := candidates(&w.s)
	if _, busy := pending(&w.s); busy && w.broken != "two calls at once" {
		return ops
	}
	switch {
	case w.broken == "two calls at once" && w.s.Published() && w.s.Stage.Phase == record.Done,
		w.broken == "unstage before unpublish" && w.s.Stage.Phase == record.Done:
		ops = append(ops, operation{kind: unstage})
	case w.broken == "a pod gets what was staged for another" && w.s.Stage.Phase == record.Done && !w.s.stale:
		ops = append(ops, forward(&w.s)...)
	case w.broken == "it leaves volumesInUse too early" && w.s.Use == record.InUse:
		ops = append(ops, operation{kind: dropInUse})
	case w.broken == "stage before volumesInUse" && w.s.Stages && w.s.Stage.Phase == record.None && len(w.s.wants) > 0:
		ops = append(ops, operation{kind: stage})
	}
	return ops
}

// perform is the other side of an operation.
func (w *world) perform(op operation, was record.Call, always *Outcome) Outcome {
	w.checkRecord(op)
	outcomes := []Outcome{succeeded, succeeded, Final, Uncertain, Unanswered, NotSent, Unrepeatable}
	var out Outcome
	if always != nil {
		out = *always
	} else {
		out = rapid.SampledFrom(outcomes).Draw(w.r, "outcome")
	}
	switch op.kind {
	case markInUse, dropInUse:
		return w.performUse(op, out)
	case waitAttached:
		if w.unique != "" && !w.inUse {
			w.fatalf("waits for the attachment of a volume that isn't in use")
		}
		return out
	}
	if out == Unrepeatable && w.s.useless(op, was) {
		w.giveUp()
	}
	if out == NotSent || out == Unrepeatable {
		return out
	}
	w.checkStaged(op, was)
	c := w.sent(op)
	w.calls++
	w.checkCall(c)
	if w.running != nil {
		// The driver makes one call at a time for a volume: the earlier one has ended now.
		if rapid.Bool().Draw(w.r, "the earlier call had its effect") {
			w.effect(*w.running)
		}
		w.running = nil
	}
	switch out {
	case succeeded:
		w.effect(c)
		w.settle(op)
	case Uncertain:
		if rapid.Bool().Draw(w.r, "it was done") {
			w.effect(c)
		}
	case Unanswered:
		w.running = &c
	}
	if (out == Uncertain || out == Unanswered) && op.kind != expand && op.kind != republish {
		w.unsure[op] = c
	}
	return out
}

// giveUp is the end of a call without an answer that can't be repeated: the driver makes its undo after it.
func (w *world) giveUp() {
	if w.running != nil {
		if rapid.Bool().Draw(w.r, "the call that can't be repeated had its effect") {
			w.effect(*w.running)
		}
		w.running = nil
	}
}

func isMaking(op operation) bool { return op.kind == stage || op.kind == publish }

func undoOf(k kind) kind {
	if k == stage {
		return unstage
	}
	return unpublish
}

// settle forgets what was unsure about a thing whose call was confirmed.
func (w *world) settle(op operation) {
	w.undoFirst = w.undoFirst && op.kind != unstage
	for other := range w.unsure {
		same := op.target == other.target && (other.kind == op.kind || isMaking(other) && undoOf(other.kind) == op.kind)
		if same {
			delete(w.unsure, other)
		}
	}
	delete(w.litter, op)
}

func (w *world) performUse(op operation, out Outcome) Outcome {
	if op.kind == dropInUse {
		// The controller may detach the volume from now on.
		if w.staged != "" || len(w.published) > 0 || w.running != nil || len(w.unsure) > 0 || len(w.litter) > 0 {
			w.fatalf("leaves volumesInUse while it is staged=%q published=%v running=%v unsure=%v litter=%v",
				w.staged, w.published, w.running, w.unsure, w.litter)
		}
	}
	done := out == succeeded || out == Unanswered && rapid.Bool().Draw(w.r, "the API server has it")
	if done {
		if op.kind == dropInUse {
			w.attachment++
		}
		w.inUse = op.kind == markInUse
	}
	return out
}

// sent returns the call as the backend would make it.
func (w *world) sent(op operation) sent {
	c := sent{op: op, context: fmt.Sprint(w.s.Context)}
	switch op.kind {
	case stage, unstage:
		c.args = w.s.Stage.Args
	case expand:
		c.args = w.s.Expand.Args
	default:
		c.args = w.s.Publication(op.target).Args
	}
	return c
}

func (w *world) effect(c sent) {
	switch c.op.kind {
	case stage:
		w.staged = c.args
	case unstage:
		w.staged = ""
	case publish, republish:
		w.published[c.op.target] = c.args
	case unpublish:
		delete(w.published, c.op.target)
	}
}

// reboot loses all mounts and calls. What was mounted needs a clean-up.
func (w *world) reboot() {
	if w.disk != nil {
		v, err := record.Unmarshal(w.disk)
		if err != nil {
			w.fatalf("%v", err)
		}
		if v.Stage.Phase != record.None {
			w.litter[operation{kind: unstage}] = true
		}
		for _, p := range v.Publications {
			w.litter[operation{unpublish, p.Target}] = true
		}
	}
	w.staged, w.published, w.running, w.unsure, w.undoFirst = "", map[record.Target]string{}, nil, map[operation]sent{}, false
	w.boot++
	w.load()
}

// settleDown has all calls answered, and checks that the volume becomes what the pods want.
func (w *world) settleDown() {
	ok := succeeded
	for range 60 {
		if !w.step(&ok, false) {
			return
		}
	}
	w.fatalf("it doesn't come to rest: %+v", w.s)
}
