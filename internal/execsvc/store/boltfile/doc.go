// Package boltfile is a bbolt file that may be damaged: whatever is wrong with it is an error, never a fault, a panic or an endless
// walk.
//
// bbolt trusts its file: it maps it and follows the page numbers that it finds there. So Open walks all pages first, with plain
// reads and every bound checked, and only then has bbolt map the file. Damage that comes to light later is an error of View or
// Update. A new file is made beside the old one and renamed when it is whole; one that can't be used is set aside under another
// name, and the last few of those are kept.
//
// It is for stores, which own the buckets and what is in them. A File is locked (flock) while it is open, readable by its owner
// only, and not safe for concurrent use. The package runs no goroutines.
package boltfile
