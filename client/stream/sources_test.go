package stream

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestSourcesChanged: a heartbeat lists all sources; others are dropped, and the order counts.
func TestSourcesChanged(t *testing.T) {
	h := NewHeld(nil, nil)
	for _, step := range []struct {
		name                string
		revision            *Revision
		readiness, sources  bool
		ready               string
		cursorSaysAllOfThem bool
	}{
		{"synced tells first", synced("file", "-api"), true, true, "api=false file=true ", false},
		{"the same again", heartbeat("file", "-api"), false, false, "api=false file=true ", false},
		{"one becomes ready", ops(update(opAdd, "api", true)), true, false, "api=true file=true ", true},
		{"another order", heartbeat("api", "file"), false, true, "api=true file=true ", true},
		{"another source", heartbeat("api", "file", "-http"), true, true, "api=true file=true http=false ", false},
		{"the word of a REMOVE", ops(update(opRemove, "api", false, "a")), true, false, "api=false file=true http=false ", false},
		{"it is gone", heartbeat("file"), true, true, "file=true ", true},
		{"it is back", heartbeat("file", "-api"), true, true, "api=false file=true ", false},
		{"there are none", heartbeat(), true, true, "", false},
	} {
		o := h.Interpret(step.revision)
		h.Apply(o)
		got := ""
		for _, name := range slices.Sorted(maps.Keys(h.Ready())) {
			got += fmt.Sprintf("%s=%v ", name, h.Ready()[name])
		}
		if o.ReadinessChanged != step.readiness || o.SourcesChanged != step.sources || got != step.ready || h.settled != step.cursorSaysAllOfThem {
			t.Errorf("%s: readiness changed %v, sources changed %v, they are %q, settled %v; want %v, %v, %q, %v", step.name,
				o.ReadinessChanged, o.SourcesChanged, got, h.settled, step.readiness, step.sources, step.ready, step.cursorSaysAllOfThem)
		}
	}
	if h.Begin(nil); !h.Interpret(heartbeat("file")).SourcesChanged {
		t.Error("the first list of another stream is taken for known")
	}
}

// TestInterpretSources compares the ops while sources are added and removed, as TestInterpret does.
func TestInterpretSources(t *testing.T) {
	file, api := update(opAdd, "file", true, "f1", "f2"), update(opAdd, "api", true, "a1")
	restored := update(opRestore, "file", false, "f1", "f2")
	for _, tc := range []struct {
		name      string
		revisions []*Revision
		want      []string
		held      string
	}{
		{"a SET without pods of a source that is gone", []*Revision{ops(file), newStream, synced("http", "-api"), ops(setOf(false, api.Pods))},
			[]string{"ADD api: a1"}, "api/a1 file/f1 file/f2"},
		{"they stay until all are ready", []*Revision{ops(file), newStream, synced("http", "-api"), ops(setOf(false)), ops(update(opAdd, "api", true))},
			[]string{"REMOVE file: f1 f2", "ADD api:"}, ""},
		{"or until the others are gone", []*Revision{ops(file), newStream, synced("http", "-relay"), ops(setOf(false)), heartbeat("http")},
			[]string{"REMOVE file: f1 f2"}, ""},
		{"a source that comes holds them back", []*Revision{ops(file), newStream, synced("http", "-api"), ops(setOf(false)),
			heartbeat("http", "-api", "-relay"), ops(update(opAdd, "api", true))}, []string{"ADD api:"}, "file/f1 file/f2"},
		{"a SET that begins the stream", []*Revision{ops(file), newStream,
			{Updates: []*podconfigv1.PodUpdate{setOf(false)}, Synced: synced("http").Synced}}, []string{"REMOVE file: f1 f2"}, ""},
		{"without the sources nothing is certain", []*Revision{ops(file), newStream, ops(setOf(false)), ops(update(opAdd, "api", true))},
			[]string{"ADD api:"}, "file/f1 file/f2"},
		{"nor with none", []*Revision{ops(file), synced("file"), ops(setOf(false)), heartbeat()}, nil, "file/f1 file/f2"},
		{"what was absent of a source that goes waits for all, too", []*Revision{ops(restored, api), synced("-file", "api", "-http"),
			ops(setOf(false, api.Pods)), heartbeat("api", "-http"), ops(update(opAdd, "http", true))},
			[]string{"REMOVE file: f1 f2", "ADD http:"}, "api/a1"},
		{"a source that comes removes nothing of the others", []*Revision{ops(file, api), synced("file", "api"), heartbeat("file", "-relay", "api")},
			nil, "api/a1 file/f1 file/f2"},
		{"a source goes after the REMOVEs of its pods", []*Revision{ops(file, api), synced("file", "api"),
			ops(update(opRemove, "api", true, "a1")), heartbeat("file")}, nil, "file/f1 file/f2"},
		{"a source that comes back isn't ready", []*Revision{ops(file, api), synced("file", "api"), ops(update(opRemove, "file", true, "f1", "f2")),
			heartbeat("api"), heartbeat("-file", "api"), ops(restored), ops(setOf(false, pods("file", "f1"), api.Pods))},
			nil, "api/a1 file/f1 file/f2"},

		// The source that podconfigd waits for may be hidden by the filter, or by the caller's role.
		{"a stored pod of a source that isn't configured", []*Revision{ops(update(opRestore, "api", false, "a1")), synced("file")}, nil, "api/a1"},
		{"and heartbeats after it", []*Revision{ops(update(opRestore, "api", false, "a1"), file), synced("file"), heartbeat("file")},
			nil, "api/a1 file/f1 file/f2"},
		{"the same on another stream, which doesn't bring it", []*Revision{ops(update(opRestore, "api", false, "a1")), newStream, synced("file"),
			heartbeat("file")}, nil, "api/a1"},
		{"until podconfigd gives it up", []*Revision{ops(update(opRestore, "api", false, "a1")), newStream, synced("file"),
			ops(update(opRemove, "api", false, "a1"))}, []string{"REMOVE api: a1"}, ""},
		{"or leaves it out of a SET", []*Revision{ops(update(opRestore, "api", false, "a1")), newStream, synced("file"), ops(setOf(true))},
			[]string{"REMOVE api: a1"}, ""},
		{"a SET that has it", []*Revision{ops(file), newStream, synced("http"), ops(setOf(false, file.Pods))},
			nil, "file/f1 file/f2"},
	} {
		t.Run(tc.name, func(t *testing.T) { wantInterpreted(t, tc.revisions, tc.want, tc.held) })
	}
}
