// Package worker runs one goroutine for each pod, the pod worker, and takes the pod through its states.
//
// The timeline of a pod, from left to right. A step that fails is repeated until it succeeds.
//
//	state       Waiting ──▶ Syncing ──────────▶ Terminating ────────▶ Terminated ────────▶ Finished ──▶ worker ends
//	            │           │                   │                     │                    │
//	step        none        SyncPod, repeated   SyncTerminatingPod    SyncTerminatedPod    none; PurgePod if
//	                                                                                       not desired
//	containers  none        run                 are stopped           have exited          dead until purged
//	full name   queued      held                held                  held                 free
//	            │           │                   │                     │                    │
//	ends when   the name    Remove, Kill,       SyncTerminatingPod    SyncTerminatedPod    PurgePod
//	            is free     DeletionTimestamp,  succeeds              succeeds             succeeds
//	                        Result.Terminal,
//	                        Result.Failure
//
// Update and Sync wake a worker in any state. A worker never returns to an earlier state. In Terminating a further
// Remove, Kill or DeletionTimestamp can only shorten the grace period. A pod in Waiting that has to end goes to
// Terminating too, because it may run since before the restart.
//
// If a pod is removed and added again with the same UID, or gets another name, the new version waits until the worker of
// the old one would end. It then starts in Waiting. A pod that is rejected stays in Syncing, and SyncPod is called again
// after growing pauses.
//
// Of the pods with one full name, only one holds the name at a time. The others wait for it in the order in which they
// arrived.
//
// The states are a pure state machine (machine.go). The sync loop calls Update, Remove and Sync; a worker calls its
// Syncer, one step at a time, and nothing else. The latest update wins.
//
// Workers.mu guards all state machines; neither the Syncer nor Config.Changed is called under it. Stop ends the
// goroutines and leaves the pods as they are.
package worker
