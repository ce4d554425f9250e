// Package store is podconfigd's memory across restarts: the merged pods, the tombstones of removed ones, the number of the last
// revision, and the instance id under which it was counted. With it a consumer's cursor stays good over a kill -9 (G6).
//
// The daemon opens it once, commits each revision, or several at a time, before any consumer is told of it, and closes it. The
// methods of a Store may be called from any goroutine; the package runs none of its own. It never reads a source, decides
// nothing about pods, and never changes what it is given.
//
// # On disk
//
// The state is one bbolt file (package boltfile), readable by its owner only, since pods hold environment variables. Its buckets are
//
//	head        "format": the number of this layout, in decimal
//	            "head":   instance id, last revision, horizon, and what the records below add up to
//	pods        UID → the pod
//	tombstones  revision of the removal and index within it, both big-endian → the removed pod's reference and digests
//	sources     name → the revision at which the source was ready last; a source that is removed, or begins anew, has none
//
// A record is its payload behind four bytes, the big-endian CRC-32C of key and payload. A payload is a protobuf message; its
// fields are listed in record.go. New fields may be added within a format: readers skip those that they don't know. The pod
// itself is in the Kubernetes protobuf encoding of v1.Pod. The head counts the records and adds up their checksums, so that a
// record that is missing, or is an older version of itself, is found as well as a changed one.
//
// The file is locked (flock) while it is open. A new one is made as PATH.new and renamed when it is whole. Those that can't be
// used are set aside as PATH.damaged-TIME and PATH.version-FORMAT-TIME; the last five are kept.
//
// A commit writes the bucket pages of the pods that changed and those above them, not what exists. bbolt writes them to free
// pages, waits for the disk (fdatasync), writes the page that makes them count, and waits again; Commit returns after that.
// Whoever has many revisions at hand commits them in one call, and they share the two waits. Config.NoSync leaves the waits out;
// it is for tests and simulations.
//
// # Damage
//
// Package boltfile checks all pages of the file before bbolt may trust them; each record's checksum is verified as it is loaded. Whatever
// is wrong, even with one pod, makes the store damaged as a whole: a state that is nearly right would break promises silently. It is set
// aside under another name, with one line in the log, and a new one begins. Damage that comes to light later, in a Commit, is an error
// there.
package store
