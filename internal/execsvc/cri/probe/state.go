package probe

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// kind is the kind of a probe.
type kind int

const (
	startup kind = iota
	readiness
	liveness
	kinds
)

// String returns the name in the kubelet's events and metrics.
func (k kind) String() string {
	return [...]string{"Startup", "Readiness", "Liveness"}[k]
}

// of returns the container's probe of that kind, or nil.
func (k kind) of(c *v1.Container) *v1.Probe {
	return [...]*v1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe}[k]
}

// state is a probe's state for one container. It never changes; after returns the next one.
type state struct {
	kind    kind
	verdict observed.Verdict
	// last is the last answer, and run how often it came in a row.
	last bool
	run  int32
}

// begin returns the state for a container that wasn't probed yet. before is set if it was started, or ready, in the
// status from before a restart of podexecd: a restart doesn't reset that.
func begin(k kind, before bool) state {
	switch {
	case before || k == liveness:
		return state{kind: k, verdict: observed.Success}
	case k == readiness:
		return state{kind: k, verdict: observed.Failure}
	default:
		return state{kind: k, verdict: observed.Undecided}
	}
}

// after returns the state after an answer. The verdict changes when the number of equal answers in a row reaches the
// threshold.
func (s state) after(success bool, spec *v1.Probe) state {
	if s.run > 0 && s.last == success {
		s.run++
	} else {
		s.last, s.run = success, 1
	}
	switch {
	case success && s.run >= spec.SuccessThreshold:
		s.verdict = observed.Success
	case !success && s.run >= spec.FailureThreshold:
		s.verdict = observed.Failure
	}
	return s
}

// final reports whether the probe never runs again for this container: it has started, or it will be killed, and an
// exec in a container that is being stopped has harmed runtimes (kubernetes/kubernetes#21751).
func (s state) final() bool {
	switch s.kind {
	case startup:
		return s.verdict != observed.Undecided
	case liveness:
		return s.verdict == observed.Failure
	default:
		return false
	}
}
