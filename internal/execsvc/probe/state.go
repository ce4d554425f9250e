package probe

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/observed"
)

// kind is what a probe is for.
type kind int

const (
	startup kind = iota
	readiness
	liveness
	kinds
)

// String is as the kubelet's events and metrics have it.
func (k kind) String() string {
	return [...]string{"Startup", "Readiness", "Liveness"}[k]
}

// of is the container's probe of that kind, or nil.
func (k kind) of(c *v1.Container) *v1.Probe {
	return [...]*v1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe}[k]
}

// state is what a probe says of one container. It never changes; after makes the next one.
type state struct {
	kind    kind
	verdict observed.Verdict
	// last is the last answer, and run how often it came in a row.
	last bool
	run  int32
}

// begin is the state for a container that hasn't been asked. Before tells that it was found started, or ready, by whoever asked before:
// Podstream's own restart is no reason to take that back.
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

// after is the state once an answer has come. The verdict changes when as many equal ones came in a row as the threshold says.
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

// final tells that this container won't be asked again: it has started, or it is going to be killed, and an exec in a container that is being
// stopped has harmed runtimes (kubernetes/kubernetes#21751).
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
