package eviction

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// look is the available amount at a time after the first synchronization, in mebibytes of 1000, and the expected
// thresholds and conditions. Below zero, it can't be read.
type look struct {
	at           time.Duration
	memory, disk int64
	act, has     string
}

// TestHysteresis: the minimum reclaim counts for a threshold that was acted upon, until it is available, and for no
// other; a grace period starts each time the threshold is met; a condition lasts for the transition period after its
// last cause.
func TestHysteresis(t *testing.T) {
	const s, m, d = time.Second, "MemoryPressure", "DiskPressure"
	hard := Settings{
		Hard:           map[string]string{"memory.available": "100Mi", "nodefs.available": "100Mi"},
		MinimumReclaim: map[string]string{"memory.available": "50Mi"},
	}
	soft := Settings{
		Hard: map[string]string{}, Soft: map[string]string{"memory.available": "100Mi"},
		SoftGracePeriod: map[string]string{"memory.available": "20s"}, MinimumReclaim: map[string]string{"memory.available": "50Mi"},
	}
	for name, tc := range map[string]struct {
		settings   Settings
		transition time.Duration
		looks      []look
	}{
		"minimum reclaim": {hard, 0, []look{
			{0, 149, 1000, "", ""},                     // Not met: the minimum reclaim doesn't count yet.
			{10 * s, 99, 1000, "memory.available", m},  // Met.
			{20 * s, 149, 1000, "memory.available", m}, // Not enough was reclaimed.
			{30 * s, 150, 1000, "", ""},                // Enough was reclaimed.
			{40 * s, 149, 1000, "", ""},                // The minimum reclaim counts no more.
			{50 * s, 99, 1000, "memory.available", m},  // Met again, with the same minimum reclaim.
			{60 * s, 100, 1000, "memory.available", m}, //
			{70 * s, -1, 1000, "", ""},                 // An unreadable signal meets no threshold,
			{80 * s, 149, 1000, "", ""},                // and resolves a met one.
			{90 * s, 149, 99, "nodefs.available", d},   // Another signal's threshold doesn't affect this one.
			{100 * s, 149, 100, "", ""},                // The disk has no minimum reclaim.
			{110 * s, 99, 99, "memory.available nodefs.available", d + " " + m},
			{120 * s, 149, 100, "memory.available", m},
		}},
		"soft": {soft, 0, []look{
			{0, 99, 1000, "", m},
			{10 * s, 149, 1000, "", ""},                // It wasn't acted upon: no minimum reclaim.
			{20 * s, 99, 1000, "", m},                  // The grace period starts again.
			{39 * s, 99, 1000, "", m},                  //
			{40 * s, 99, 1000, "memory.available", m},  // It is over.
			{41 * s, 149, 1000, "memory.available", m}, // Now the minimum reclaim counts,
			{42 * s, 150, 1000, "", ""},                // and is available.
			{43 * s, 99, 1000, "", m},                  // The grace period starts again.
			{62 * s, 99, 1000, "", m},
			{63 * s, 99, 1000, "memory.available", m},
		}},
		"conditions": {hard, 30 * s, []look{
			{0, 1000, 1000, "", ""},
			{10 * s, 99, 1000, "memory.available", m},
			{20 * s, 1000, 99, "nodefs.available", d + " " + m},
			{39 * s, 1000, 1000, "", d + " " + m},
			{40 * s, 1000, 1000, "", d}, // 30 s after the last cause.
			{49 * s, 1000, -1, "", d},
			{50 * s, 1000, 1000, "", ""},
			{60 * s, 99, 1000, "memory.available", m},
			{80 * s, 140, 1000, "memory.available", m}, // A missing minimum reclaim is a cause, too.
			{90 * s, 150, 1000, "", m},
			{109 * s, 1000, 1000, "", m},
			{110 * s, 1000, 1000, "", ""},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := Parse(tc.settings)
			if err != nil {
				t.Fatal(err)
			}
			var state state
			for _, l := range tc.looks {
				seen := observations{}
				if l.memory >= 0 {
					seen[MemoryAvailable] = free(l.memory)
				}
				if l.disk >= 0 {
					seen[NodeFsAvailable] = free(l.disk)
				}
				before := maps.Clone(state.conditionLastObserved)
				next, has, act := state.next(all, seen, tc.transition, t0.Add(l.at))
				if !maps.Equal(before, state.conditionLastObserved) {
					t.Errorf("at %v the state before was changed", l.at)
				}
				state = next
				var acts, conditions []string
				for _, i := range act {
					acts = append(acts, string(all[i].signal))
				}
				for _, c := range slices.Sorted(maps.Keys(has)) {
					conditions = append(conditions, string(c))
				}
				if got := strings.Join(acts, " "); got != l.act {
					t.Errorf("at %v: acts upon %q; want %q", l.at, got, l.act)
				}
				if got := strings.Join(conditions, " "); got != l.has {
					t.Errorf("at %v: has %q; want %q", l.at, got, l.has)
				}
			}
		})
	}
}

// A pod that takes memory and frees it all the time causes few events of the Node.
func TestEventsOfThresholdsAreBounded(t *testing.T) {
	inBubble(t, Settings{Hard: map[string]string{"memory.available": "100Mi"}}, func(t *testing.T, h *harness) {
		h.run()
		count := 0
		for range 6 * 180 { // six hours
			for _, mib := range []int64{99, 1000} {
				h.memory(mib)
				pass(period)
				for _, did := range h.took() {
					if did == "Attempting to reclaim memory" {
						count++
					}
				}
			}
		}
		if most := metBurst + 6*3; count > most || count < most-1 {
			t.Errorf("%d events in six hours; want %d", count, most)
		}
	})
}
