// Package feed has what tabs follow: a Log of items and a Table of rows.
//
// Writers never wait for readers, and a reader costs nothing but its position: it takes what is new since then, as much as it
// can send now. A slow reader of a Log misses the items that were dropped meanwhile, and learns how many. A slow reader of a
// Table gets the last version of each row. Both are bounded.
//
// Readers register a channel, which gets a value after each change; one value may stand for many changes. A position is of one
// Log or Table of this process: after a restart of podctl none is valid.
//
// The package starts no goroutines. Lock order: a Log's or Table's lock is the last one.
package feed
