// Package probe runs the startup, readiness and liveness probes of containers with the periods of their pods, and keeps
// their verdicts, by which packages actions and status decide.
//
// A pod's worker calls Set, Ending, Remove and Probes; the sync loop waits on Ready and wakes the workers of the pods
// that Take returns. Run is one goroutine with a queue of due probes; a probe has a goroutine only while it runs, and
// Run waits for all of them. Package handler sends the requests. This package restarts no containers and notifies no
// other component.
//
// The rules are the kubelet's (pkg/kubelet/prober), except that nothing waits for a tick: the first probe runs once the
// initial delay is over, and the other probes once the container has started. A readiness probe that fails right after
// its container started is repeated sooner than its period; the kubelet does so whenever it syncs the pod.
//
// Config.Observed is called with the Manager's lock held: it must not wait for callers of the Manager.
package probe
