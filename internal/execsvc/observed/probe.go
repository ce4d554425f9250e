package observed

// Verdict is what a probe says of a container.
type Verdict int

// The verdicts.
const (
	// NoProbe: the container has no such probe, or this agent doesn't probe it.
	NoProbe Verdict = iota
	// Undecided: the probe hasn't said anything yet.
	Undecided
	Success
	Failure
)

// Probed is what the probes of one container say.
type Probed struct {
	Startup, Readiness, Liveness Verdict
}

// Probes are what the probes of one pod's containers say, by the container's ID: a new container begins anew. One that isn't there
// has no probes.
type Probes map[string]Probed
