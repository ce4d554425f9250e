package cridiff

import (
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

var allExamples = slices.Concat(examples, insideExamples, lifeExamples, resizeExamples)

// table compares the example.
func (e example) table() *Table {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app"}}}}
	pod.UID = "u1"
	if e.change != nil {
		e.change(pod)
	}
	steps := func(own, other Fields) Steps {
		switch {
		case e.step == "" && own == nil:
			return nil
		case e.step == "" || own == nil && other == nil:
			return Steps{outcomeStep: {}}
		}
		return with(Steps{e.step: own}, e.also)
	}
	if e.missing != nil {
		some := func(own Fields) Trace {
			all := Steps{outcomeStep: e.missing}
			if own != nil {
				all[e.step] = own
			}
			return Trace{"u1": with(all, e.also)}
		}
		return Compare([]*v1.Pod{pod}, some(e.kubelet), some(e.podstream))
	}
	return Compare([]*v1.Pod{pod}, Trace{"u1": steps(e.kubelet, e.podstream)}, Trace{"u1": steps(e.podstream, e.kubelet)})
}

func with(steps, more Steps) Steps {
	maps.Copy(steps, more)
	return steps
}

// clone returns a copy whose fields can be changed.
func (e example) clone() example {
	e.kubelet, e.podstream = maps.Clone(e.kubelet), maps.Clone(e.podstream)
	return e
}

// TestRules shows each rule's difference: the rule, and no other, explains it.
func TestRules(t *testing.T) {
	for _, r := range Rules {
		if r.Reason == "" || !slices.ContainsFunc(allExamples, func(e example) bool { return e.rule == r.Name }) {
			t.Errorf("rule %s has no reason or no example", r.Name)
		}
	}
	for _, e := range allExamples {
		table := e.table()
		if len(table.Unexplained) > 0 || len(table.ByRule) != 1 || table.ByRule[e.rule] == 0 {
			t.Errorf("%s: explained %v, unexplained %v", e.rule, table.ByRule, table.Unexplained)
		}
	}
}

// TestRulesAreNarrow: a rule explains nothing that is similar to its example.
func TestRulesAreNarrow(t *testing.T) {
	for _, e := range allExamples {
		for what, change := range e.neighbours {
			near := e.clone()
			change(&near)
			wantUnexplained(t, e.rule+", "+what, near)
		}
		if e.step == "" {
			continue
		}
		other := e.clone()
		other.step = "StopPodSandbox"
		wantUnexplained(t, e.rule+" in another step", other)
		if e.missing != nil {
			continue
		}
		other = e.clone()
		other.kubelet, other.podstream = moved(e.kubelet), moved(e.podstream)
		wantUnexplained(t, e.rule+" in another message", other)
		for path := range e.podstream {
			other = e.clone()
			other.podstream[path] += "x"
			wantUnexplained(t, e.rule+" with another "+path, other)
		}
		for path := range e.kubelet {
			other = e.clone()
			other.kubelet[path] += "x"
			wantUnexplained(t, e.rule+" with another "+path+" of the kubelet", other)
		}
	}
}

func moved(fields Fields) Fields {
	out := Fields{}
	for path, v := range fields {
		out["other."+path] = v
	}
	return out
}

func wantUnexplained(t *testing.T, what string, e example) {
	t.Helper()
	if table := e.table(); len(table.Unexplained) == 0 {
		t.Errorf("%s: the rules explain it: %v", what, table.ByRule)
	}
}

// TestFaults: the comparison finds each planted difference, also in steps that have explained ones.
func TestFaults(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app"}}}}
	pod.UID = "u1"
	of := func(seen, hash string) Steps {
		return Steps{
			"RunPodSandbox": {"config.hostname": "web", "config.annotations.kubernetes.io/config.seen": seen},
			"CreateContainer app": {
				"config.linux.resources.cpuShares": "2", "config.annotations.io.kubernetes.container.hash": hash,
			},
			"StopContainer app": {"timeout": "30"}, "StopPodSandbox": {"podSandboxId": "SANDBOX"},
			orderStep: {"[0]": "RunPodSandbox", "[1]": "CreateContainer app", "[2]": "StopContainer app", "[3]": "StopPodSandbox"},
		}
	}
	kubelet := of("2026-11-23T07:16:25.698041089Z", "bedbdf1a")
	podstream := of("2026-11-23T07:17:39Z", "bedbdf1a")
	if table := Compare([]*v1.Pod{pod}, Trace{"u1": kubelet}, Trace{"u1": podstream}); len(table.Unexplained) > 0 || len(table.ByRule) != 1 {
		t.Fatalf("without a fault: %v, %v", table.ByRule, table.Unexplained)
	}
	swapped, right := Steps{orderStep: list("", "b", "a")}, Steps{orderStep: list("", "a", "b")}
	if slices.ContainsFunc(faults(swapped, right), func(f fault) bool { return f.what == "a before b" }) {
		t.Error("it is no fault to have the kubelet's order")
	}
	var what []string
	for _, f := range faults(podstream, kubelet) {
		what = append(what, f.what)
		if table := Compare([]*v1.Pod{pod}, Trace{"u1": kubelet}, Trace{"u1": f.steps}); len(table.Unexplained) == 0 {
			t.Errorf("%s: the comparison doesn't find it", f.what)
		}
	}
	for _, want := range []string{
		"no config.hostname in RunPodSandbox", "another config.linux.resources.cpuShares in CreateContainer app", "no StopContainer app",
		"StopPodSandbox before StopContainer app", "a field too much in StopPodSandbox",
	} {
		if !slices.Contains(what, want) {
			t.Errorf("no fault is %q", want)
		}
	}
}
