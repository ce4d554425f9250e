// Package store stores podexecd's state for the case of a restart: the desired pods and their cursor, the last status
// of each pod, the resources that it was last allocated, the current terminations, and the times of the last removals.
//
// The daemon opens it once and passes its State to the agent, which updates it from then on: Apply, SetStatus,
// SetAllocation and Drop change the state in memory, never wait, and are safe for concurrent use. One goroutine,
// Run, writes all changes since its last write in one transaction and waits for the disk. SetEnd, SetReplaced,
// SetRestart and Flush wait until their changes are on disk. So the file is always the state of memory at one moment: never a cursor
// without its pods (promise G7 needs that).
//
// Values that are passed in are shared, not copied, and must not be changed: pods and statuses are encoded when they
// are written. The store makes no decisions about pods.
//
// # On disk
//
// The state is one bbolt file (package boltfile). Its buckets are
//
//	head         "head": the number of this layout, the cursor, the times of the last removals, and the tally of the
//	             records of pods, statuses and ends
//	             "allocations": the tally of the allocations, and the checksum of the "head" that it was written with
//	pods         UID → the desired pod, with its source and digests
//	statuses     UID → the status, when it changed, the containers that were stopped for their successors, and an
//	             operator's request to restart containers
//	ends         UID → the current termination
//	allocations  UID → the resources that the pod was allocated
//
// A record is JSON after four bytes, the big-endian CRC-32C of key and JSON. Pods, statuses and the cursor are in it
// in their protobuf encodings, times in milliseconds. Fields may be added within a format. A tally has the number of
// records and the sum of their checksums, so that a missing or outdated record is found too.
//
// Older versions without allocations read and write the rest, and leave that key and bucket as they are, so a
// downgrade is possible. The checksum shows that such a version has written the file: the allocations are then ignored
// and replaced.
//
// # Errors
//
// A file that is damaged, even in one record, or of another format is set aside with one line in the log, and an empty
// one replaces it: the pods come again from podconfigd, and running pods are found by their annotations at the
// runtime. While the disk is full or can't be written, podexecd goes on from memory, and the log says so once. Run
// retries with backoff, and then writes the whole state. Memory is bounded by the desired and running pods, however
// long that takes.
package store
