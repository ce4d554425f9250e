// Package probe asks containers whether they have started, are ready and are alive, as often as their pod says, and keeps what follows
// from the answers: the verdicts on which packages actions and status decide.
//
// A pod's worker calls Set, Ending, Remove and Probes; the sync loop waits on Ready and wakes the workers of the pods that Take returns.
// Run is one goroutine with a queue of what is due; a probe has a goroutine only while it is under way, and Run waits for all of them.
// Asking itself is package handler's. Restarting, and telling anybody, is never done here.
//
// The rules are the kubelet's (pkg/kubelet/prober), but that nothing waits for a tick: a container is asked once its initial delay
// is over, and its other probes once it has started. A readiness probe that fails right after its container came is asked again sooner than its
// period; the kubelet does so whenever it looks at the pod.
//
// Config.Observed is called with the Manager's lock held: it must not wait for anyone who calls the Manager.
package probe
