package cridiff

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Steps are what an agent did with one pod.
type Steps = map[string]Fields

// Difference is a field, or a whole step, that the agents don't have alike.
type Difference struct {
	UID string
	// Step is empty if one agent refused the manifest, and the other one didn't.
	Step string
	// Path is empty if one agent doesn't have the step at all.
	Path string
	// Kubelet and Podstream are the values, or absent, or made.
	Kubelet, Podstream string

	// Pod is the pod, and of are both agents' steps with it. For noPod it is empty.
	Pod *v1.Pod
	of  sides
}

// sides are both agents' steps with a pod.
type sides struct{ kubelet, podstream Steps }

const (
	// absent is the value of a field or step that an agent doesn't have. No value of a field contains it.
	absent = "\x00absent"
	// made is the value of a step that an agent has and the other one doesn't.
	made = "\x00made"
)

func (d *Difference) String() string {
	return fmt.Sprintf("%s: %s: %s: kubelet %q, podstream %q", d.UID, d.Step, d.Path, d.Kubelet, d.Podstream)
}

// Table counts what was compared and found.
type Table struct {
	// Pods, Requests, Files and Fields count what was compared; a file is one field.
	Pods, Requests, Files, Fields int
	// ByMethod counts the requests by method.
	ByMethod map[string]int
	// Inside counts the containers whose processes found something.
	Inside int
	// Ran, Stopped and Refused count the pods of which both agents created a container, that both know but created none
	// of, and whose manifest both refused.
	Ran, Stopped int
	Refused      []string
	// Planted counts the differences that were planted in what Podstream did, and Caught those that were found.
	Planted, Caught int
	// ByRule counts the explained differences.
	ByRule map[string]int
	// Unexplained are the other ones.
	Unexplained []Difference
}

// NewTable returns an empty table.
func NewTable() *Table { return &Table{ByRule: map[string]int{}, ByMethod: map[string]int{}} }

// Compare compares what the agents did with the pods.
func Compare(pods []*v1.Pod, kubelet, podstream Trace) *Table {
	t := NewTable()
	t.Pods = len(pods)
	for _, pod := range pods {
		t.comparePod(pod, string(pod.UID), sides{kubelet[string(pod.UID)], podstream[string(pod.UID)]})
	}
	if k, p := kubelet[noPod], podstream[noPod]; k != nil || p != nil {
		t.compareSteps(&v1.Pod{}, noPod, sides{k, p})
	}
	return t
}

func (t *Table) comparePod(pod *v1.Pod, uid string, of sides) {
	switch {
	case of.kubelet == nil && of.podstream == nil:
		t.Refused = append(t.Refused, uid)
		return
	case of.kubelet == nil || of.podstream == nil:
		t.add(Difference{UID: uid, Kubelet: presence(of.kubelet != nil), Podstream: presence(of.podstream != nil), Pod: pod, of: of})
		return
	}
	creates := func(steps Steps) bool {
		return slices.ContainsFunc(slices.Collect(maps.Keys(steps)), func(step string) bool { return strings.HasPrefix(step, "CreateContainer ") })
	}
	switch k, p := creates(of.kubelet), creates(of.podstream); {
	case k && p:
		t.Ran++
	case !k && !p:
		t.Stopped++
	}
	t.compareSteps(pod, uid, of)
}

func (t *Table) compareSteps(pod *v1.Pod, uid string, of sides) {
	for _, step := range union(of.kubelet, of.podstream) {
		d := Difference{UID: uid, Step: step, Pod: pod, of: of}
		switch {
		case step == orderStep, step == outcomeStep:
		case step == filesStep, step == cgroupStep:
			t.Files += len(union(of.kubelet[step], of.podstream[step]))
		case strings.HasPrefix(step, insideStep):
			t.Inside++
		default:
			method, _, _ := strings.Cut(step, " ")
			t.Requests++
			t.ByMethod[method]++
		}
		k, inKubelet := of.kubelet[step]
		p, inPodstream := of.podstream[step]
		if inKubelet != inPodstream {
			d.Kubelet, d.Podstream = presence(inKubelet), presence(inPodstream)
			t.add(d)
			continue
		}
		for _, path := range union(k, p) {
			t.Fields++
			if d.Path, d.Kubelet, d.Podstream = path, value(k, path), value(p, path); d.Kubelet != d.Podstream {
				t.add(d)
			}
		}
	}
}

func (t *Table) add(d Difference) {
	if name := Explain(&d); name != "" {
		t.ByRule[name]++
		return
	}
	t.Unexplained = append(t.Unexplained, d)
}

func presence(is bool) string {
	if is {
		return made
	}
	return absent
}

func value(f Fields, path string) string {
	if v, ok := f[path]; ok {
		return v
	}
	return absent
}

// union returns the keys of both, sorted.
func union[V any](a, b map[string]V) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Add adds another table.
func (t *Table) Add(other *Table) {
	t.Pods, t.Requests = t.Pods+other.Pods, t.Requests+other.Requests
	t.Files, t.Inside, t.Fields = t.Files+other.Files, t.Inside+other.Inside, t.Fields+other.Fields
	t.Ran, t.Stopped = t.Ran+other.Ran, t.Stopped+other.Stopped
	t.Refused = append(t.Refused, other.Refused...)
	t.Planted, t.Caught = t.Planted+other.Planted, t.Caught+other.Caught
	for name, n := range other.ByRule {
		t.ByRule[name] += n
	}
	for name, n := range other.ByMethod {
		t.ByMethod[name] += n
	}
	t.Unexplained = append(t.Unexplained, other.Unexplained...)
}

// String returns the table for people.
func (t *Table) String() string {
	explained := 0
	for _, n := range t.ByRule {
		explained += n
	}
	var b strings.Builder
	fmt.Fprintf(&b, "pods %d: both ran %d, both stopped at %d, both refused %d\n", t.Pods, t.Ran, t.Stopped, len(t.Refused))
	fmt.Fprintf(&b, "requests %d, files %d, containers from inside %d, fields %d: differences %d, unexplained %d\n",
		t.Requests, t.Files, t.Inside, t.Fields, explained+len(t.Unexplained), len(t.Unexplained))
	fmt.Fprintf(&b, "planted differences %d, caught %d\n", t.Planted, t.Caught)
	for _, name := range slices.Sorted(maps.Keys(t.ByMethod)) {
		fmt.Fprintf(&b, "%7d  requests %s\n", t.ByMethod[name], name)
	}
	for _, name := range slices.Sorted(maps.Keys(t.ByRule)) {
		fmt.Fprintf(&b, "%7d  %s\n", t.ByRule[name], name)
	}
	return b.String()
}
