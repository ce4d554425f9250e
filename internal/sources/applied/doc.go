// Package applied is the source of the pods that callers write by ApplyManifests and DeleteManifests.
//
// It owns the documents, which are in a store of its own, and when they are handed over. podconfigd makes one Source, if
// the configuration enables it. mergesvc/service calls Write and Documents; package write decides what a change does to the
// documents. The Source never reads or writes an administrator's directory, and uses no text of a request as a path.
//
// # The store
//
// DIR/documents.db is a bbolt file (package boltfile), 0600 in a directory of mode 0700. A write is one transaction: all of
// its documents are stored, or none, and Write goes on once they are on disk. The buckets are
//
//	head       "format": the number of this layout; "check": the number of the documents, and the XOR of their checksums
//	documents  KIND NUL NAMESPACE NUL NAME → the CRC-32C of key and record, and the record in JSON
//
// The directory, the file and its draft must be the daemon's own, and no links. A store that is damaged, is another
// version's or is none of these is never replaced by an empty one: the source has an error, its pods stay as they are, and
// no writes are taken, until `podctl sources accept applied`. So it is if there is no store while podconfigd has pods of the
// source. A file that is removed while the Source runs is written again from memory.
//
// # Writes
//
// One write at a time is planned, checked, stored and handed over. Run, in its own goroutine, hands the documents over after
// each write, and every CheckFrequency, in which it checks that the file still has its name. Write returns when the set with
// its change was taken by the function that Run was given, which publishes it. If the process ends between the two, the
// next Run hands the stored documents over.
//
// Locks, in this order: writing (a channel, as waiters have contexts) is held for a write, disk for the use of the
// file, mu for the fields. Run takes disk and mu only.
package applied
