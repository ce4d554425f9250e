// Package storage sets up persistent volumes for pods: claims, generic ephemeral volumes, and inline volumes of CSI
// drivers. It decides which call is made next for each volume, records it, and makes it through a Backend. It has no
// protocol: a Backend has CSI's, or NFS's.
//
// Package volume calls it as a Plugin: SetUp and TearDown in the pods' workers, which wait with their own context. The
// program starts Run. There is one goroutine for each volume, that is each driver and handle, that has something to do;
// it makes one operation at a time, and goes on when the worker has stopped waiting. A driver that hangs delays only the
// pods of its volumes: no lock is held during I/O, and volumes share no queue. A publish of a Stoppable backend ends when no pod wants it.
//
// A static pod that doesn't share its volumes takes one only while the others that it needs are free (exclusive.go): pods don't wait for
// each other's volumes in a circle. An API pod takes each PersistentVolume that is ReadWriteOncePod as soon as no other pod has it.
//
// # A volume's operations
//
//	mark-in-use ─▶ wait-attached ─▶ stage ─▶ publish (for each pod)
//	drop-in-use ◀─ unstage ◀─ unpublish (for each pod)
//
// Two PersistentVolumes with one handle are one volume. It is staged after the API server has it in the node's
// volumesInUse, and is unstaged after all its publications are gone. It leaves volumesInUse after the driver has confirmed
// that.
//
// A volume of a claim with volumeMode Block takes the same path; its publication is a Device: a link to the block device in
// the pod's directory.
// While it is published, its call may be repeated (republish), for a driver that wants new tokens, and it may be expanded.
// Neither ends the publication, whatever the driver answers, and both are one operation among the others: while one has no
// answer, there is no other. SetUp has the call repeated at the pod's syncs, with a shortest pause, and waits for it only
// before the volume's first use: Sizes.Mounted compares its size with the claim's then.
//
// Volumes that pods share by a group, Volume.FSGroup, are changed to the fsGroup of their first pod. That is decided, and on disk, before the
// publication's first call, and stays so: the change is repeated until the publication is done (groups.go).
//
// # Answers
//
// An operation's intent is on disk before its call (package record), and its answer afterwards. An error has an Outcome:
//
//   - Unanswered: the driver may still execute the call. Until it answers, the only call for this volume is the same one
//     with the same arguments, whatever pods want, and after a restart too.
//   - Uncertain: the volume counts as staged or published. While a pod wants it, the call is repeated as it was;
//     otherwise it is undone.
//   - Final: if it was the first call, nothing was done. After an earlier call without a certain answer, the volume is
//     undone first.
//   - Final or Uncertain, of a volume that was to be unstaged: it counts as staged, and isn't used. A pod that wants it has it staged again,
//     with the same arguments; without one the call is repeated. It is the same if earlier calls had no answer (record.Call.Reusable).
//   - InProgress: as Uncertain. But if an earlier call to unstage the volume has no answer, it has none yet (Unanswered).
//   - NotSent: nothing has changed.
//   - Unrepeatable: nothing has changed, and the call may never be possible again. If an earlier one has no answer, and no pod
//     wants the volume, it is undone.
//
// # Restarts
//
// Run reads the records before anything else; it needs no API server and no podconfigd. Publications stay until their
// pod is torn down: package volume lists their pods among those on disk. What another boot has mounted is undone before
// anything is made. A damaged record blocks its volume, and InUse reports that the list isn't complete.
//
// # Implementation
//
// candidates (decide.go), begin and finish (transition.go) are pure functions of a state; TestModel checks them.
// Storage.mu guards all entries and is the only lock; record.Dir has its own, which is never held during I/O either.
//
// The package never unmounts anything itself, never removes a directory or a damaged record, and never believes a file
// below the kubelet's directory.
package storage
