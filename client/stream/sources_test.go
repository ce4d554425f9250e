package stream

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// TestSourcesChanged: a heartbeat's list is all sources; what isn't in it is forgotten, in which order it stands is told too.
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
