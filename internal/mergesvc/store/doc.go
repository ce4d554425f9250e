// Package store keeps podconfigd's state across restarts: the merged pods, the tombstones of removed ones, the number
// of the last revision, and its instance ID. With it a consumer's cursor stays valid over a kill -9 (G6).
//
// The daemon opens it once, commits revisions before they are sent to any consumer, and closes it. The methods of a
// Store may be called from any goroutine; the package runs none of its own. It reads no source, decides nothing about
// pods, and doesn't change its arguments.
//
// # On disk
//
// The state is one bbolt file (package boltfile), readable by its owner only, since pods have environment variables.
// Its buckets are
//
//	head        "format": the number of this layout, in decimal
//	            "head":   instance id, last revision, horizon, and the count and checksum of the records below
//	pods        UID → the pod
//	tombstones  revision of the removal and index within it, both big-endian → the removed pod's reference and digests
//	sources     name → the revision at which the source was ready last; none if it was removed, or starts again
//
// A record is the big-endian CRC-32C of key and payload, in four bytes, and the payload. A payload is a protobuf
// message; its fields are listed in record.go. New fields may be added within a format: readers skip unknown ones.
// The pod itself is in the Kubernetes protobuf encoding of v1.Pod. The head has the number of the records and the sum
// of their checksums, so that a record that is missing or outdated is detected as well as a changed one.
//
// The file is locked (flock) while it is open. A new one is made as PATH.new and renamed when it is complete.
// Unusable files are set aside as PATH.damaged-TIME and PATH.version-FORMAT-TIME; the last five are kept.
//
// A commit writes the bucket pages of the changed pods and those above them, not the whole file. bbolt writes them to
// free pages, waits for the disk (fdatasync), writes the page that makes them valid, and waits again; Commit returns
// after that. Revisions that are committed in one call share the two waits. Config.NoSync leaves the waits out; it is
// for tests and simulations.
//
// # Damage
//
// Package boltfile checks all pages of the file before bbolt may use them; each record's checksum is verified as it
// is loaded. Any error, even in one pod, makes the whole store damaged: a partly wrong state would break guarantees
// silently. The store is set aside under another name, with one line in the log, and a new one replaces it. Damage
// that is found later, in a Commit, is an error there.
package store
