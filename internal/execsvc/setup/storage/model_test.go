package storage

import (
	"flag"
	"fmt"
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
	// exact is set if pods can't use the volume as it is staged for others.
	exact bool

	// staged and published are what the driver has really made; published has the arguments.
	staged    string
	published map[record.Target]string
	// running is a call that the driver still executes after its caller has given up: it may have its effect at any time.
	running *sent
	// unsure are calls with an uncertain answer or none: until they are undone or confirmed, only the same is repeated.
	unsure map[operation]sent
	// undoFirst is set if the volume must be unstaged whatever pods want.
	undoFirst bool
	// refused is set if the driver has refused to unstage the volume, and hasn't unstaged it since.
	refused bool
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
	context := contextOf(t)
	v := Volume{
		Key:        w.s.Key,
		Traits:     record.Traits{Backend: "b", Stages: w.stages, Attaches: w.unique != "", UniqueName: w.unique, SELinuxContext: context},
		Exact:      w.exact,
		StageArgs:  fmt.Sprintf("stage%d %s", w.args, context),
		OneContext: w.broken != "pods share a volume with different contexts", PublishArgs: fmt.Sprintf("publish%d %s", w.args, context),
	}
	if w.s.conflict(t, "", "v", &v) != nil {
		return
	}
	w.s.setWant(t, want{volume: v, volumes: []string{"v"}, dir: "/" + string(t.UID)})
	if p := w.s.Publication(t); p != nil && w.broken == "arguments change" {
		p.Args = v.PublishArgs
	}
}

// contextOf returns the SELinux context of a pod. It is the last word of arguments.
func contextOf(t record.Target) string {
	if t.UID == "u3" {
		return "other"
	}
	return "usual"
}

// target returns one of a few targets.
func (w *world) target() record.Target {
	uid := rapid.SampledFrom([]types.UID{"u1", "u2", "u3"}).Draw(w.r, "uid")
	return record.Target{UID: uid, Plugin: "p", Name: "pv"}
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
	w.exact = rapid.Bool().Draw(r, "exact")
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
		"renew": func(*rapid.T) {
			if t := w.target(); isDone(w.s.Publication(t)) && w.s.kept(t) {
				w.s.renew[t] = true
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
	for t := range w.gone {
		w.s.drop(t)
	}
	for t := range w.pods {
		w.want(t)
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
// without an answer is repeated as it was; a volume has one SELinux context at a time, and is unstaged before it gets
// another, or if it was staged for none of the pods that wait; a volume stays published whatever a repeated call answers; the record is on the disk before each call; the
// volume leaves volumesInUse only after all is undone; and in the end nothing is left.
func TestModel(t *testing.T) {
	if !isSet("rapid.checks") {
		// rapid's default of 100 finds some faults only now and then.
		setFlags(t, map[string]string{"rapid.checks": "3000"})
	}
	rapid.Check(t, func(r *rapid.T) { history(r, "") })
}

func isSet(name string) (is bool) {
	flag.Visit(func(f *flag.Flag) { is = is || f.Name == name })
	return is
}

// setFlags sets flags during a test.
func setFlags(t *testing.T, values map[string]string) {
	t.Helper()
	for name, value := range values {
		f := flag.Lookup(name)
		was := f.Value.String()
		if err := f.Value.Set(value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Value.Set(was) })
	}
}

// counted is a test of which only the result counts.
type counted struct {
	testing.TB
	failed bool
}

func (c *counted) Errorf(string, ...any) { c.failed = true }

func (c *counted) Fatalf(string, ...any) { c.failed = true }

func (c *counted) Fail() { c.failed = true }

func (c *counted) FailNow() { c.failed = true }

func (c *counted) Failed() bool { return c.failed }

func (c *counted) Logf(string, ...any) {}

// TestModelFindsFaults: the model test can fail. Each planted fault is found.
func TestModelFindsFaults(t *testing.T) {
	setFlags(t, map[string]string{"rapid.shrinktime": "0s", "rapid.nofailfile": "true", "rapid.checks": "20000"})
	for _, fault := range []string{
		"no record before a call", "another boot is believed", "a pending call is forgotten", "arguments change",
		"a final answer clears an earlier uncertain one", "two calls at once", "unstage before unpublish",
		"it leaves volumesInUse too early", "stage before volumesInUse", "a failed repetition unpublishes",
		"pods share a volume with different contexts", "a pod gets what was staged for another",
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
