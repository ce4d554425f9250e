// Package boltfile is a bbolt file that may be damaged: whatever is wrong with it is an error, never a fault, a panic or an endless
// walk.
//
// bbolt trusts its file: it maps it, follows the page numbers that it finds there, and faults or recurses without end if they are wrong.
// So Open walks all pages first, with plain reads and every bound checked, and only then has bbolt map the file; bbolt's own Tx.Check
// isn't used for that, as it works in a goroutine of its own, where a fault ends the process. Damage that comes to light later is an
// error of View or Update. The mapping of such a file isn't released, as bbolt may have stopped anywhere.
//
// A new file is made as PATH.new, readable by its owner only, and renamed when it is whole. One that can't be used is set aside as
// PATH.damaged-TIME or PATH.version-FORMAT-TIME; the last five are kept. A File is locked (flock) while it is open.
//
// It is for stores, which own the buckets and what is in them, and log what happens. A File isn't safe for concurrent use. The package
// runs no goroutines.
package boltfile
