package differential

import (
	"flag"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// TestDifferential sends random sequences to both sides, and compares after each set.
func TestDifferential(t *testing.T) {
	t.Logf("seed %s; repeat with -rapid.seed", flag.Lookup("rapid.seed").Value)
	sequences, sets := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		drafted := slices.Concat(drafts.Draw(rt, "drafts")...)
		both := startDrawn(t, rt)
		sequences++
		q := newSequence()
		for _, d := range drafted {
			q.take(q.next(d))
			sets++
			if diff, err := both.compare(q.last()); err != nil || diff != "" {
				rt.Fatalf("after\n%s%v\n%s", q, err, diff)
			}
		}
	})
	t.Logf("%d sequences of %d sets", sequences, sets)
}

// TestRulesAreNarrow takes the first step that a rule recognises, which TestDifferential avoids. Both sides
// must differ there, otherwise the rule hides something from the comparison.
func TestRulesAreNarrow(t *testing.T) {
	differed := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		drafted := slices.Concat(drafts.Draw(rt, "drafts")...)
		both := startDrawn(t, rt)
		q := newSequence()
		for _, d := range drafted {
			step := Step{Source: Sources[d.Source], Pods: q.sets[Sources[d.Source]]}
			var rules []string
			for _, e := range d.Edits {
				step.Pods = e.of(step.Pods)
				if rules = avoided(&q.history, step); len(rules) > 0 {
					break
				}
			}
			held := slices.ContainsFunc(step.Pods, func(p *v1.Pod) bool { return q.history.holds(step.Source, p.UID) })
			alone := onlyOneMet(&q.history, step, rules, q.sets)
			q.take(step)
			diff, err := both.compare(step)
			switch {
			case err != nil:
				rt.Fatalf("after\n%s%v", q, err)
			case len(rules) == 0 && diff == "":
				continue
			case len(rules) == 0:
				rt.Fatalf("after\n%s%s", q, diff)
			case diff != "":
				differed[rules[0]]++
			// If two rules apply, one may hide the difference of the other. And upstream's result for a second pod
			// under a UID that it has depends on that pod. The later steps are undefined in any case.
			case alone && !(rules[0] == "uidTwiceInSet" && held):
				rt.Errorf("rule %s recognises the last step of\n%sbut there is no difference", rules[0], q)
			}
			return
		}
	})
	t.Logf("differences, by rule: %v", differed)
}

// onlyOneMet reports whether the step is a case of exactly one rule, given the rules that recognise it and the
// sources' earlier sets. A pod that waits for another pod, of this source or another one, may be a case of
// another rule by itself, or take the other pod's place.
func onlyOneMet(h *History, s Step, rules []string, sets map[string][]*v1.Pod) bool {
	met := slices.Clone(rules)
	for _, p := range s.Pods {
		met = append(met, avoided(h, set(s.Source, p))...)
	}
	slices.Sort(met)
	waiting := len(servedUpstream(s.Pods)) < len(s.Pods)
	for source, pods := range sets {
		waiting = waiting || source != s.Source && len(servedUpstream(pods)) < len(pods)
	}
	return len(rules) == 1 && len(slices.Compact(met)) == 1 && (!waiting || rules[0] == "mirrorBesideItsName")
}

// startDrawn starts both sides for one check of rapid.
func startDrawn(t *testing.T, rt *rapid.T) *sides {
	both, err := start(t)
	if err != nil {
		rt.Fatalf("%v", err)
	}
	rt.Cleanup(func() {
		if err := both.close(); err != nil {
			rt.Errorf("%v", err)
		}
	})
	return both
}

// TestSequencesReachEverything: a few hundred sequences contain every op in every mode, their drafts reach
// every Avoided rule, and their steps every LeftOut rule.
func TestSequencesReachEverything(t *testing.T) {
	reached := map[string]int{}
	for seed := range 300 {
		upstream := newUpstreams()
		q := newSequence()
		for _, d := range slices.Concat(drafts.Example(seed)...) {
			step := q.next(d)
			for _, r := range Rules {
				if r.Handling == LeftOut && r.Recognises(&q.history, step) {
					reached["rule "+r.Name]++
				}
			}
			q.take(step)
			received, err := upstream.set(step)
			if err != nil {
				t.Fatal(err)
			}
			for i, mode := range Modes {
				count(reached, mode.Name, received[i])
			}
		}
		for rule, n := range q.steppedBack {
			reached["rule "+rule] += n
		}
		upstream.close()
	}
	wanted := []string{
		"incremental ADD", "incremental empty ADD", "incremental UPDATE", "incremental DELETE", "incremental REMOVE",
		"incremental RECONCILE", "incremental silence", "incremental three ops or more",
		"snapshot-and-updates SET", "snapshot-and-updates UPDATE", "snapshot-and-updates DELETE", "snapshot-and-updates silence",
		"snapshot-and-updates three ops or more", "snapshot SET", "snapshot silence",
	}
	for _, r := range Rules {
		wanted = append(wanted, "rule "+r.Name)
	}
	for _, what := range wanted {
		if reached[what] < 10 {
			t.Errorf("%s: reached %d times; want 10 at least", what, reached[what])
		}
	}
	t.Log(reached)
}

func count(reached map[string]int, mode string, ops []Op) {
	switch {
	case len(ops) == 0:
		reached[mode+" silence"]++
	case len(ops) >= 3:
		reached[mode+" three ops or more"]++
	}
	for _, op := range ops {
		kind := op.Op
		if kind == "ADD" && len(op.Pods) == 0 {
			kind = "empty ADD"
		}
		reached[mode+" "+kind]++
	}
}
