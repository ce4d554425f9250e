// Package store is podexecd's memory across restarts: the desired pods and the cursor that they stand at, the last status of each
// pod, the resources that it was last allocated, and the terminations that are under way.
//
// The daemon opens it once and gives what it holds to the agent, which keeps it up to date from then on: Apply, SetStatus,
// SetAllocation and Forget change what is in memory, never wait, and are safe for concurrent use. One goroutine, Run, writes what has
// gathered in one transaction and waits for the disk; who needs to know that something is there, SetEnd and Flush, waits for it. So the
// file is always what memory was at one moment: never a cursor without its pods (promise G7 needs that).
//
// What it is given is shared, not copied, and must not be changed: pods and statuses are encoded as they are written. The store
// decides nothing about pods.
//
// # On disk
//
// The state is one bbolt file (package boltfile). Its buckets are
//
//	head         "head": the number of this layout, the cursor, and what the records of pods, statuses and ends add up to;
//	             "allocations": what those of allocations add up to, and the checksum of the "head" that it was written with
//	pods         UID → the desired pod, with its source and digests
//	statuses     UID → the status, and when it changed
//	ends         UID → the termination that is under way
//	allocations  UID → what the pod was allocated
//
// A record is JSON behind four bytes, the big-endian CRC-32C of key and JSON; pods, statuses and the cursor are within it in their
// protobuf encodings, times in milliseconds. Fields may be added within a format. The heads count the records and add up their
// checksums, so that one that is missing, or is an older version of itself, is found too.
//
// Versions that know of no allocations read and write the rest, and so can be gone back to: they leave that key and bucket as they are.
// By the checksum it is seen that one of them has written, or made, the file: its allocations aren't believed then, and it is replaced.
//
// # Trouble
//
// A file that is damaged, even in one record, or of another format is set aside with one line in the log, and an empty one takes its
// place: the pods come again from podconfigd, and those that run are found by their marks at the runtime. While the disk is full
// or can't be written, podexecd goes on from memory; the log says so once. It is tried again with backoff, and the whole state is
// written then. Memory is bounded by what is desired and what runs, however long that takes.
package store
