package storage

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// world is the truth of the model test: a driver, the API server, the disk and the pods. It judges each operation by
// what really is so, not by the state of package storage.
type world struct {
	r *rapid.T
	// unique and stages are the volume's traits.
	unique string
	stages bool

	// staged and published are what the driver has really made; published has the arguments.
	staged    string
	published map[record.Target]string
	// running is a call that the driver still executes after its caller has given up: it may have its effect at any time.
	running *sent
	// unsure are calls with an uncertain answer or none: until they are undone or confirmed, only the same is repeated.
	unsure map[operation]sent
	// litter is what a reboot left of the volume: something must undo it before anything is made.
	litter map[operation]bool
	inUse  bool
	// attachment counts attachments: a volume that isn't in use may be detached.
	attachment int
	// broken plants a fault, to see that it is found.
	broken string

	disk []byte
	boot int
	// pods are the publications of pods that exist.
	pods map[record.Target]bool
	// gone are those of pods that have ended.
	gone map[record.Target]bool
	args int

	s     state
	calls int
}

// sent is a call as the driver got it.
type sent struct {
	op      operation
	args    string
	context string
}

func (w *world) fatalf(format string, args ...any) {
	w.r.Helper()
	w.r.Fatalf(format, args...)
}

// load replaces podexecd's state by what a start finds on the disk.
func (w *world) load() {
	if w.disk == nil {
		w.s = newState(record.Key{Driver: "d", Handle: "h"})
	} else {
		v, err := record.Unmarshal(w.disk)
		if err != nil {
			w.fatalf("the record is damaged: %v", err)
		}
		boot := w.bootID()
		if w.broken == "another boot is believed" {
			boot = v.Boot
		}
		w.s = recovered(&v, boot)
		if w.broken == "a pending call is forgotten" {
			w.s.Stage.Pending = false
			for i := range w.s.Publications {
				w.s.Publications[i].Pending = false
			}
		}
	}
	for t := range w.pods {
		if w.s.Publication(t) == nil && rapid.Bool().Draw(w.r, "pod syncs soon") {
			w.want(t)
		}
	}
}

func (w *world) bootID() string { return fmt.Sprintf("boot%d", w.boot) }

// write stores the state.
func (w *world) write() {
	if w.s.blank() {
		w.disk = nil
		return
	}
	v := w.s.recorded("agent", w.bootID())
	data, err := record.Marshal(&v)
	if err != nil {
		w.fatalf("the record can't be written: %v", err)
	}
	w.disk = data
}

func (w *world) want(t record.Target) {
	w.args++
	traits := record.Traits{Backend: "b", Stages: w.stages, Attaches: w.unique != "", UniqueName: w.unique}
	w.s.setWant(t, want{volume: Volume{
		Key: w.s.Key, Traits: traits, StageArgs: fmt.Sprintf("stage%d", w.args), PublishArgs: fmt.Sprintf("publish%d", w.args),
	}, volumes: []string{"v"}, dir: "/" + string(t.UID)})
	if p := w.s.Publication(t); p != nil && w.broken == "arguments change" {
		p.Args = fmt.Sprintf("publish%d", w.args)
	}
}

// target returns one of a few targets.
func (w *world) target() record.Target {
	uid := rapid.SampledFrom([]types.UID{"u1", "u2", "u3"}).Draw(w.r, "uid")
	return record.Target{UID: uid, Plugin: "p", Name: "pv"}
}

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
	out := w.perform(op, always)
	if crash == afterCall {
		w.load()
		return true
	}
	attachment := map[string]string{"n": fmt.Sprint(w.attachment)}
	if w.broken == "a final answer clears an earlier uncertain one" && out == Final && isMaking(op) {
		was = record.Call{}
	}
	finish(&w.s, op, was, out, attachment)
	stored := !mayCrash || rapid.IntRange(0, 9).Draw(w.r, "no space for the answer") > 0
	if stored {
		w.write()
	}
	if _, earlier := w.unsure[op]; earlier && stored && out == Final && isMaking(op) {
		w.unsure[operation{undoOf(op.kind), op.target}] = sent{} // Only an undo may follow.
	}
	return true
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
	case w.broken == "it leaves volumesInUse too early" && w.s.Use == record.InUse:
		ops = append(ops, operation{kind: dropInUse})
	case w.broken == "stage before volumesInUse" && w.s.Stages && w.s.Stage.Phase == record.None && len(w.s.wants) > 0:
		ops = append(ops, operation{kind: stage})
	}
	return ops
}

// perform is the other side of an operation.
func (w *world) perform(op operation, always *Outcome) Outcome {
	w.checkRecord(op)
	outcomes := []Outcome{succeeded, succeeded, Final, Uncertain, Unanswered, NotSent}
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
	if out == NotSent {
		return out
	}
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
	if (out == Uncertain || out == Unanswered) && op.kind != expand {
		w.unsure[op] = c
	}
	return out
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
	case unstage:
		if len(w.published) > 0 || slices.ContainsFunc(w.unsureOps(), func(o operation) bool { return o.kind == publish || o.kind == unpublish }) {
			w.fatalf("unstaged while it is published: %v, unsure: %v", w.published, w.unsure)
		}
	}
}

func (w *world) unsureOps() []operation {
	var ops []operation
	for o := range w.unsure {
		ops = append(ops, o)
	}
	return ops
}

func (w *world) effect(c sent) {
	switch c.op.kind {
	case stage:
		w.staged = c.args
	case unstage:
		w.staged = ""
	case publish:
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
	w.staged, w.published, w.running, w.unsure = "", map[record.Target]string{}, nil, map[operation]sent{}
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

// history is a random history.
func history(r *rapid.T, broken string) {
	w := &world{
		r: r, stages: rapid.Bool().Draw(r, "stages"), published: map[record.Target]string{}, unsure: map[operation]sent{},
		litter: map[operation]bool{}, pods: map[record.Target]bool{}, gone: map[record.Target]bool{}, broken: broken,
	}
	if rapid.Bool().Draw(r, "attachable") {
		w.unique = "unique"
	}
	w.load()
	step := func(*rapid.T) { w.step(nil, true) }
	r.Repeat(map[string]func(*rapid.T){
		"step": step, "another step": step, "a third step": step,
		"pod": func(*rapid.T) {
			t := w.target()
			if !w.gone[t] {
				w.pods[t] = true
				w.want(t)
			}
		},
		"pod ends": func(*rapid.T) {
			t := w.target()
			delete(w.pods, t)
			w.gone[t] = true
			w.s.drop(t)
		},
		"expand": func(*rapid.T) {
			if t := w.target(); w.pods[t] {
				w.args++
				w.s.grow = &expansion{target: t, args: fmt.Sprint(w.args)}
			}
		},
		"late effect": func(*rapid.T) {
			if w.running != nil {
				w.effect(*w.running)
			}
		},
		"restart": func(*rapid.T) { w.load() },
		"reboot":  func(*rapid.T) { w.reboot() },
	})
	// Everything is answered, and each pod syncs.
	for t := range w.pods {
		w.want(t)
	}
	for t := range w.gone {
		w.s.drop(t)
	}
	w.settleDown()
	for _, t := range w.s.wanted() {
		if _, ok := w.published[t]; !ok {
			w.fatalf("%v isn't published at the end", t)
		}
	}
	for t := range w.published {
		if !w.pods[t] {
			w.fatalf("%v is still published", t)
		}
	}
	if len(w.pods) > 0 && w.stages && w.staged == "" {
		w.fatalf("it isn't staged at the end")
	}
	for _, t := range w.s.wanted() {
		w.s.drop(t)
	}
	w.settleDown()
	if w.staged != "" || len(w.published) > 0 || w.disk != nil || w.inUse || len(w.litter) > 0 {
		w.fatalf("left at the end: staged %q, published %v, record %s, in use %v, litter %v", w.staged, w.published, w.disk, w.inUse, w.litter)
	}
}

// TestModel: whatever pods want, drivers answer, and whenever podexecd or the node ends: there is one call at a time, no
// stage before volumesInUse has the volume, no publish before the stage, no unstage before all unpublishes; a call
// without an answer is repeated as it was; the record is on the disk before each call; the volume leaves volumesInUse
// only after all is undone; and in the end nothing is left.
func TestModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) { history(r, "") })
}

// counted is a test of which only the result counts.
type counted struct {
	testing.TB
	failed bool
}

func (c *counted) Errorf(string, ...any) { c.failed = true }
func (c *counted) Fatalf(string, ...any) { c.failed = true }
func (c *counted) Fail()                 { c.failed = true }
func (c *counted) FailNow()              { c.failed = true }
func (c *counted) Failed() bool          { return c.failed }
func (c *counted) Logf(string, ...any)   {}

// TestModelFindsFaults: the model test can fail. Each planted fault is found.
func TestModelFindsFaults(t *testing.T) {
	for name, value := range map[string]string{"rapid.shrinktime": "0s", "rapid.nofailfile": "true", "rapid.checks": "20000"} {
		f := flag.Lookup(name)
		was := f.Value.String()
		if err := f.Value.Set(value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Value.Set(was) })
	}
	for _, fault := range []string{
		"no record before a call", "another boot is believed", "a pending call is forgotten", "arguments change",
		"a final answer clears an earlier uncertain one", "two calls at once", "unstage before unpublish",
		"it leaves volumesInUse too early", "stage before volumesInUse",
	} {
		t.Run(fault, func(t *testing.T) {
			c := &counted{TB: t}
			rapid.Check(c, func(r *rapid.T) { history(r, fault) })
			if !c.failed {
				t.Error("the fault isn't found")
			}
		})
	}
}
