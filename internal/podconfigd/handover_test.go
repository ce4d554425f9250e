package podconfigd

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/sourceconfig"
)

// TestHandover: removed sources wait for added ones, whatever changes meanwhile.
func TestHandover(t *testing.T) {
	// A step is a plan of NAME or NAME@LOCATION, a source that was heard, or a time to look whether any has stayed
	// for long enough.
	type step struct {
		plan, heard string
		at          int
		// gone are those that go by it, leaving those that stay behind the plan's.
		gone, leaving string
	}
	for name, steps := range map[string][]step{
		"a removal":          {{plan: "b", gone: "a"}},
		"another name":       {{plan: "b x", leaving: "a"}, {heard: "b", leaving: "a"}, {heard: "x", gone: "a"}},
		"another location":   {{plan: "b@elsewhere", leaving: "a"}, {heard: "b", gone: "a"}},
		"nothing leaves":     {{plan: "a b x"}, {plan: "a b", gone: "x"}},
		"no source is heard": {{plan: "b x", leaving: "a"}, {at: 29, leaving: "a"}, {at: 30, gone: "a"}, {heard: "x"}},
		"another name again": {
			{plan: "b x", leaving: "a"}, {plan: "b y", leaving: "a x"}, {heard: "x", leaving: "a x"}, {heard: "y", gone: "a x"},
		},
		"and back":                   {{plan: "b x", leaving: "a"}, {plan: "a b", leaving: "x"}, {heard: "a", gone: "x"}},
		"back, and it comes at last": {{plan: "b x", leaving: "a"}, {plan: "a b x"}, {heard: "x"}, {plan: "a b", gone: "x"}},
		"a removal meanwhile":        {{plan: "b x", leaving: "a"}, {plan: "x", gone: "b", leaving: "a"}, {heard: "x", gone: "a"}},
		"what comes goes":            {{plan: "b x", leaving: "a"}, {plan: "b", gone: "x a"}},
		"each has its time": {
			{plan: "b x", leaving: "a"}, {at: 20, plan: "x y", leaving: "a b"}, {at: 30, gone: "a", leaving: "b"}, {at: 50, gone: "b"},
		},
		"nothing new meanwhile": {{plan: "b x", leaving: "a"}, {plan: "x b", leaving: "a"}, {heard: "x", gone: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := handover{patience: 30 * time.Second}
			plan, start := sourcesOf("a b"), time.Now()
			for _, s := range steps {
				var gone, leaving []string
				now := start.Add(time.Duration(s.at) * time.Second)
				switch {
				case s.plan != "":
					next := sourcesOf(s.plan)
					gone, plan = h.change(plan, next, now), next
				case s.heard != "":
					gone = h.heard(s.heard)
				default:
					gone = h.expire(now)
				}
				for _, l := range h.leaving {
					leaving = append(leaving, l.Name)
				}
				if !slices.Equal(gone, strings.Fields(s.gone)) || !slices.Equal(leaving, strings.Fields(s.leaving)) {
					t.Fatalf("at %+v there go %q, and %q are leaving", s, gone, leaving)
				}
				if _, waits := h.next(); waits != (s.leaving != "") {
					t.Errorf("at %+v there is a time to look again: %v", s, waits)
				}
			}
		})
	}
}

func sourcesOf(text string) (out []sourceconfig.Source) {
	for _, field := range strings.Fields(text) {
		name, location, _ := strings.Cut(field, "@")
		out = append(out, sourceconfig.Source{Name: name, Location: location})
	}
	return out
}

// TestSupervisorHandover: a removed source stays configured, behind all others and without a reader, until the added
// ones have given a good set.
func TestSupervisorHandover(t *testing.T) {
	st := newStage(t)
	st.mustStart("a-1", "b-1")
	st.mustChange("x-1", "b-1", "y-1")
	st.expect("end a-1", "configure x b y extra a", "start x-1, start y-1")
	st.gives("x-1")
	st.expect()
	st.gives("y-1")
	st.expect("configure x b y extra", "drop a")
}

// TestSupervisorHandoverEnds: a source that came and can't be read doesn't keep the former one for ever.
func TestSupervisorHandoverEnds(t *testing.T) {
	st := newStage(t)
	log := newLog()
	st.log, st.handover.patience = slog.New(slog.NewTextHandler(log, nil)), time.Millisecond
	st.mustStart("a-1")
	st.mustChange("x-1")
	st.expect("end a-1", "configure x extra a", "start x-1")
	<-st.expired.C
	st.expire()
	st.expect("configure x extra", "drop a")
	if !strings.Contains(log.String(), "gone=a unread=x") {
		t.Errorf("what goes, and for whom it waited, isn't told:\n%s", log)
	}
}
