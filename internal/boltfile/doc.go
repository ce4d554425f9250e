// Package boltfile opens bbolt files that may be damaged: any damage is an error, never a fault, a panic or an
// endless walk.
//
// bbolt trusts its file: it maps it, follows the page numbers in it, and faults or recurses without end if they are
// wrong. So Open first walks all pages, with plain reads and every bound checked, and only then has bbolt map the
// file. bbolt's own Tx.Check isn't used for that, as it runs in its own goroutine, where a fault ends the process.
// Damage that is found later is an error of View or Update. The mapping of such a file isn't released, as bbolt may
// have stopped anywhere.
//
// A new file is made as PATH.new, readable by its owner only, and renamed when it is complete. An unusable file is
// set aside as PATH.damaged-TIME or PATH.version-FORMAT-TIME; the last five are kept. A File is locked (flock) while
// it is open.
//
// It is for stores, which define the buckets and their content, and log. A File isn't safe for concurrent use. The
// package runs no goroutines.
package boltfile
