// Package execsvc is the Agent: it runs the pods of podconfigd's stream on this node.
//
// The Agent connects the packages below this directory. The sync loop (syncloop) calls it with desired pods and
// events. It stores the desired pods (podset), and has a pod worker for each (worker). The workers call it for each
// step, which it performs with the admission (admission), the runtime (runtime), volumes and cgroups (podsetup) and
// the status (status). Data flows from the stream and the pleg through the loop to the workers, and from there to the
// runtime; no package calls the loop.
//
// The walk of a pod: HandlePodAdditions (handlers.go) queues it for admission and dispatches it to its worker; SyncPod
// (sync.go) admits it, sets it up, and calls the runtime. All calls of the admission are in admit.go. No two files of
// the package use methods of each other.
//
// Before a shutdown of the machine, package shutdown ends the pods by the functions of shutdown.go.
//
// The sync loop's housekeeping (cleanups.go) leaves what waits for disks, systemd or the runtime to the goroutine of
// chores.go, which has ended when Run returns.
//
// The order of locks: Agent.admitting before those of the admission, the workers and the store; the admission's before
// those of the eviction manager and of the RuntimeClasses; Agent.showing before those of the pods, the workers, the
// statuses, the pod view and the store. Agent.admitting and Agent.showing are never held at once.
package execsvc
