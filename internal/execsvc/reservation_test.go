package execsvc

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// The room that others make for a critical pod is nobody else's, and nobody else ends for it.
func TestReservedRoom(t *testing.T) {
	d := newDoorman(t, "4", nil)
	victim, critical := sized("v", 1, "3", "1Mi"), static(sized("c", 0, "2", "1Mi"))
	d.wantIn(victim)
	d.wantReserved(critical, named("v"), named("v"))
	// The room that it was given is its own as long as it is there: it may have less of it, and all of it again.
	for generation, cpu := range []string{2: "2500m", 3: "3"} {
		if cpu == "" {
			continue
		}
		if got := d.wantIn(sized("v", int64(generation), cpu, "1Mi")); !got.Begun {
			t.Errorf("%+v; want it to have %s", got, cpu)
		}
	}
	d.ending["v"] = true
	d.wantReserved(critical, named("v"), nil)
	// What fits beside both comes in, what fits beside one doesn't.
	d.wantIn(sized("small", 1, "1", "1Mi"))
	d.wantOut(sized("large", 1, "1500m", "1Mi"))
	d.ends("v")
	d.wantOut(sized("large", 1, "1500m", "1Mi"))
	d.wantIn(critical)
	d.wantOut(sized("large", 1, "1500m", "1Mi"))
	d.wantIn(sized("rest", 1, "1", "1Mi"))
	if len(d.reserved) > 0 {
		t.Errorf("%v are reserved still", d.reserved)
	}
}

// A victim that is there again doesn't end a second time.
func TestVictimComesAgain(t *testing.T) {
	d := newDoorman(t, "4", nil)
	victims := []*v1.Pod{sized("v", 1, "2", "1Mi"), sized("w", 1, "2", "1Mi")}
	d.wantIn(victims[0])
	d.wantIn(victims[1])
	critical := static(sized("c", 0, "4", "1Mi"))
	d.wantReserved(critical, named("v", "w"), named("v", "w"))
	d.ending["v"], d.ending["w"] = true, true
	d.ends("v")
	d.wantOut(victims[0])
	d.wantReserved(critical, named("w"), nil)
	d.ends("w")
	d.wantOut(victims[1])
	d.wantIn(critical)
}

// Whom a critical pod would have ended, but hasn't told yet, is spared if another one ends meanwhile.
func TestVictimIsSpared(t *testing.T) {
	d := newDoorman(t, "4", nil)
	d.wantIn(sized("v", 1, "2", "1Mi"))
	d.wantIn(sized("x", 1, "2", "1Mi"))
	critical := static(sized("c", 0, "2", "1Mi"))
	d.expect(critical, nil)
	d.wantOut(sized("other", 1, "1", "1Mi")) // It is the critical one's turn first.
	if r := d.reserved["c"]; r == nil || !r.victims["v"] {
		t.Fatalf("%+v is reserved; want v to end for it", r)
	}
	d.ending["x"] = true
	d.wantReserved(critical, named("x"), nil)
	d.ends("x")
	d.wantIn(critical)
	d.wantOut(sized("other", 1, "1", "1Mi"))
}

// Each of two critical pods has its own room, whoever's victim ends first.
func TestTwoCriticalPods(t *testing.T) {
	d := newDoorman(t, "4", nil)
	d.wantIn(sized("v", 1, "2", "1Mi"))
	d.wantIn(sized("w", 1, "2", "1Mi"))
	first, second := static(sized("a", 0, "2", "1Mi")), static(sized("b", 0, "2", "1Mi"))
	d.wantReserved(first, named("v"), named("v"))
	d.wantReserved(second, named("v", "w"), named("w"))
	d.ending["v"], d.ending["w"] = true, true
	d.ends("v")
	d.wantReserved(second, named("w"), nil)
	d.wantOut(static(sized("third", 0, "1", "1Mi")))
	d.wantIn(first)
	d.ends("w")
	d.wantIn(second)
}

// A critical pod with a higher priority gets the room that is reserved for another, which waits on.
func TestReservationYields(t *testing.T) {
	d := newDoorman(t, "2", nil)
	d.wantIn(sized("v", 1, "2", "1Mi"))
	low, high := static(sized("low", 0, "2", "1Mi")), static(sized("high", 0, "2", "1Mi"))
	low.Spec.Priority, high.Spec.Priority = ptr.To[int32](1), ptr.To[int32](2)
	d.wantReserved(low, named("v"), named("v"))
	d.wantReserved(high, named("v"), named("v"))
	d.ending["v"] = true
	if !d.woken["low"] {
		t.Error("the one that lost its room isn't told")
	}
	d.wantOut(low)
	d.ends("v")
	d.wantOut(low)
	d.wantIn(high)
}

// Room that was reserved is free again when the critical pod is gone, or can't run here any more.
func TestReservationIsGivenUp(t *testing.T) {
	for name, giveUp := range map[string]func(d *doorman, critical *v1.Pod){
		"gone": func(d *doorman, critical *v1.Pod) { d.left(critical.UID) },
		"refused": func(d *doorman, critical *v1.Pod) {
			if _, v := d.ask(withClaim(critical)); len(v.Refused) == 0 {
				d.t.Fatalf("%+v; want it refused", v)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDoorman(t, "2", nil)
			victim, critical, other := sized("v", 1, "2", "1Mi"), static(sized("c", 0, "2", "1Mi")), sized("o", 1, "1", "1Mi")
			d.wantIn(victim)
			d.wantReserved(critical, named("v"), named("v"))
			d.ending["v"] = true
			d.wantOut(other)
			d.ends("v")
			d.wantOut(other)
			clear(d.woken)
			giveUp(d, critical)
			if !d.woken["o"] {
				t.Error("who waits for room isn't woken")
			}
			d.wantIn(other)
		})
	}
}
