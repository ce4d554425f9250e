// Package worker runs one goroutine for each pod and takes it through its life: waiting, syncing, terminating, terminated,
// finished.
//
// The life itself is a pure state machine (machine.go). The sync loop tells the workers what is desired and wakes them; a
// worker calls its Syncer, one step at a time, and never anyone else. The latest update wins; there is no way back from
// terminating, and the time that a pod has to end only shrinks. Of pods with one full name only one lives at a time: the others wait
// for it in the order in which they came. A UID that comes back while its last incarnation is ending waits for that end. A pod that is
// refused is offered again after growing pauses.
//
// Workers.mu guards all machines; neither the Syncer nor Config.Changed is called under it. Stop ends the goroutines and leaves the pods
// as they are.
package worker
