package observed

// Verdict is a probe's result for a container.
type Verdict int

// The verdicts.
const (
	// NoProbe: the container has no such probe, or this agent doesn't probe it.
	NoProbe Verdict = iota
	// Undecided: the probe has no result yet.
	Undecided
	Success
	Failure
)

// Probed has the results of one container's probes.
type Probed struct {
	Startup, Readiness, Liveness Verdict
}

// Probes has the results of one pod's probes, by the container's ID: a new container starts without results. A
// container that isn't in it has no probes.
type Probes map[string]Probed
