package results

import (
	"fmt"
	"maps"
	"slices"
)

// Runs is how often both agents run a spec that doesn't pass on both, before its verdicts count.
const Runs = 3

// Verdict is what the runs of a spec say together.
type Verdict string

// The verdicts. Unsteady means that the runs have different states.
const (
	Missing  Verdict = "-"
	Passes   Verdict = "passes"
	Fails    Verdict = "fails"
	Unsteady Verdict = "unsteady"
	IsSkip   Verdict = "skipped"
)

var verdicts = map[string]Verdict{Passed: Passes, Failed: Fails, Skipped: IsSkip}

// VerdictOf returns the verdict of some runs, and the reason of the last that didn't pass.
func VerdictOf(runs []Result) (v Verdict, reason string) {
	v = Missing
	for _, r := range runs {
		switch {
		case v == Missing:
			v = verdicts[r.State]
		case v != verdicts[r.State]:
			v = Unsteady
		}
		if r.State != Passed {
			reason = r.Reason
		}
	}
	return v, reason
}

// Row compares the agents in one spec.
type Row struct {
	Spec string
	// Kubelet and Podstream are the verdicts, KubeletRuns and PodstreamRuns the numbers of runs.
	Kubelet, Podstream         Verdict
	KubeletRuns, PodstreamRuns int
	// Reason is why one of them doesn't pass.
	Reason string
}

// Decided are specs that the kubelet passes and Podstream fails on purpose, each with its section of docs/decisions.md.
var Decided = map[string]string{
	"[sig-storage] CSI Mock volume attach When CSIDriver AttachRequired changes from true to false should cleanup VolumeAttachment properly [Slow]": "A mounted volume stays in volumesInUse",
}

// Class is what a row means.
type Class int

// The classes. Each row has one.
const (
	// PassOnBoth, SkippedOnBoth and FailOnBoth: the verdicts are the same. FailOnBoth includes unsteady ones.
	PassOnBoth Class = iota
	SkippedOnBoth
	FailOnBoth
	// Better: the kubelet fails or is unsteady, and podstream passes or fails less.
	Better
	// Differs: the kubelet passes, and podstream doesn't, as Decided says.
	Differs
	// Unconfirmed: the spec doesn't pass on both, and one of the agents has fewer than Runs runs.
	Unconfirmed
	// Lacking: one of them has no result.
	Lacking
	// Worse: the kubelet passes and podstream doesn't, or only one of them skips the spec.
	Worse
	classes
)

// Class returns what the row means. Specs that only one agent skips differ at once: no further run changes a skip.
func (r Row) Class() Class {
	switch {
	case r.Kubelet == Missing || r.Podstream == Missing:
		return Lacking
	case r.Kubelet == Passes && r.Podstream == Passes:
		return PassOnBoth
	case r.Kubelet == IsSkip && r.Podstream == IsSkip:
		return SkippedOnBoth
	case r.Kubelet == IsSkip || r.Podstream == IsSkip:
		return Worse
	case r.Kubelet == Passes && Decided[r.Spec] != "":
		return Differs
	case r.KubeletRuns < Runs || r.PodstreamRuns < Runs:
		return Unconfirmed
	case r.Kubelet == r.Podstream:
		return FailOnBoth
	case r.Kubelet == Passes || r.Podstream == Fails: // an unsteady kubelet passes sometimes
		return Worse
	default:
		return Better
	}
}

// Compare returns a row for each spec of either agent, by name.
func Compare(kubelet, podstream map[string][]Result) []Row {
	specs := slices.Collect(maps.Keys(kubelet))
	for spec := range podstream {
		if _, ok := kubelet[spec]; !ok {
			specs = append(specs, spec)
		}
	}
	slices.Sort(specs)
	var rows []Row
	for _, spec := range specs {
		rows = append(rows, rowOf(spec, kubelet[spec], podstream[spec]))
	}
	return rows
}

func rowOf(spec string, kubelet, podstream []Result) Row {
	row := Row{Spec: spec, KubeletRuns: len(kubelet), PodstreamRuns: len(podstream)}
	var theirs, ours string
	row.Kubelet, theirs = VerdictOf(kubelet)
	row.Podstream, ours = VerdictOf(podstream)
	switch {
	case ours == theirs || ours == "":
		row.Reason = theirs
	case theirs == "":
		row.Reason = ours
	default:
		row.Reason = fmt.Sprintf("kubelet: %s; podstream: %s", theirs, ours)
	}
	return row
}

// Next returns the specs that a run of one agent does next, given the results of both: those without a result, in the
// given order, and then those that aren't confirmed, and of which this agent lacks runs.
func Next(specs []string, own, other map[string][]Result) []string {
	var first, again []string
	for _, spec := range specs {
		switch {
		case len(own[spec]) == 0:
			first = append(first, spec)
		case len(own[spec]) < Runs && rowOf(spec, own[spec], other[spec]).Class() == Unconfirmed:
			again = append(again, spec)
		}
	}
	return append(first, again...)
}
