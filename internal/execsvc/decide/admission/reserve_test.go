package admission

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// The capacity that victims make free for a critical pod is reserved for it, and no more victims than necessary end.
func TestReservation(t *testing.T) {
	q := newQueue(t, "4", nil)
	victim, critical := sized("v", 1, "3", "1Mi"), static(sized("c", 0, "2", "1Mi"))
	q.wantIn(victim)
	q.wantReserved(critical, named("v"), named("v"))
	// Until the victim ends, its capacity is its own: it can shrink, and grow back.
	for generation, cpu := range []string{2: "2500m", 3: "3"} {
		if cpu == "" {
			continue
		}
		if got := q.wantIn(sized("v", int64(generation), cpu, "1Mi")); !got.Begun {
			t.Errorf("%+v; want it to have %s", got, cpu)
		}
	}
	q.snapshot.Terminating["v"] = true
	q.wantReserved(critical, named("v"), nil)
	// A pod that fits beside both is admitted, a pod that fits beside one of them is not.
	q.wantIn(sized("small", 1, "1", "1Mi"))
	q.wantOut(sized("large", 1, "1500m", "1Mi"))
	q.ends("v")
	q.wantOut(sized("large", 1, "1500m", "1Mi"))
	q.wantIn(critical)
	q.wantOut(sized("large", 1, "1500m", "1Mi"))
	q.wantIn(sized("rest", 1, "1", "1Mi"))
	if len(q.reserved) > 0 {
		t.Errorf("%v are still reserved", q.reserved)
	}
}

// A victim that is added again is not ended a second time.
func TestVictimIsAddedAgain(t *testing.T) {
	q := newQueue(t, "4", nil)
	victims := []*v1.Pod{sized("v", 1, "2", "1Mi"), sized("w", 1, "2", "1Mi")}
	q.wantIn(victims[0])
	q.wantIn(victims[1])
	critical := static(sized("c", 0, "4", "1Mi"))
	q.wantReserved(critical, named("v", "w"), named("v", "w"))
	q.snapshot.Terminating["v"], q.snapshot.Terminating["w"] = true, true
	q.ends("v")
	q.wantOut(victims[0])
	q.wantReserved(critical, named("w"), nil)
	q.ends("w")
	q.wantOut(victims[1])
	q.wantIn(critical)
}

// A victim that is not being ended yet stays if another pod ends meanwhile.
func TestVictimIsSpared(t *testing.T) {
	q := newQueue(t, "4", nil)
	q.wantIn(sized("v", 1, "2", "1Mi"))
	q.wantIn(sized("x", 1, "2", "1Mi"))
	critical := static(sized("c", 0, "2", "1Mi"))
	q.Expect(critical, nil)
	q.wantOut(sized("other", 1, "1", "1Mi")) // The critical pod is decided first.
	if r := q.reserved["c"]; r == nil || !r.victims["v"] {
		t.Fatalf("%+v is reserved; want v to end for it", r)
	}
	q.snapshot.Terminating["x"] = true
	q.wantReserved(critical, named("x"), nil)
	q.ends("x")
	q.wantIn(critical)
	q.wantOut(sized("other", 1, "1", "1Mi"))
}

// Each of two critical pods has its own reservation, whichever victim ends first.
func TestTwoCriticalPods(t *testing.T) {
	q := newQueue(t, "4", nil)
	q.wantIn(sized("v", 1, "2", "1Mi"))
	q.wantIn(sized("w", 1, "2", "1Mi"))
	first, second := static(sized("a", 0, "2", "1Mi")), static(sized("b", 0, "2", "1Mi"))
	q.wantReserved(first, named("v"), named("v"))
	q.wantReserved(second, named("v", "w"), named("w"))
	q.snapshot.Terminating["v"], q.snapshot.Terminating["w"] = true, true
	q.ends("v")
	q.wantReserved(second, named("w"), nil)
	q.wantOut(static(sized("third", 0, "1", "1Mi")))
	q.wantIn(first)
	q.ends("w")
	q.wantIn(second)
}

// A critical pod with a higher priority takes the reservation of another one, which goes on waiting.
func TestReservationYields(t *testing.T) {
	q := newQueue(t, "2", nil)
	q.wantIn(sized("v", 1, "2", "1Mi"))
	low, high := static(sized("low", 0, "2", "1Mi")), static(sized("high", 0, "2", "1Mi"))
	low.Spec.Priority, high.Spec.Priority = ptr.To[int32](1), ptr.To[int32](2)
	q.wantReserved(low, named("v"), named("v"))
	q.wantReserved(high, named("v"), named("v"))
	q.snapshot.Terminating["v"] = true
	if !q.woken["low"] {
		t.Error("the pod that lost its reservation isn't woken")
	}
	q.wantOut(low)
	q.ends("v")
	q.wantOut(low)
	q.wantIn(high)
}

// Reserved capacity is free again when the critical pod is gone, or is changed into one that is rejected.
func TestReservationIsGivenUp(t *testing.T) {
	for name, giveUp := range map[string]func(q *queueTest, critical *v1.Pod){
		"gone": func(q *queueTest, critical *v1.Pod) { q.ends(critical.UID) },
		"rejected": func(q *queueTest, critical *v1.Pod) {
			if _, v := q.ask(ofAnotherOS(critical)); len(v.Rejected) == 0 {
				q.t.Fatalf("%+v; want it rejected", v)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t, "2", nil)
			victim, critical, other := sized("v", 1, "2", "1Mi"), static(sized("c", 0, "2", "1Mi")), sized("o", 1, "1", "1Mi")
			q.wantIn(victim)
			q.wantReserved(critical, named("v"), named("v"))
			q.snapshot.Terminating["v"] = true
			q.wantOut(other)
			clear(q.woken)
			giveUp(q, critical)
			if !q.woken["o"] {
				t.Error("the waiting pod isn't woken")
			}
			q.ends("v")
			q.wantIn(other)
		})
	}
}
