// Package syncloop is podexecd's one select: it takes what podconfigd streams, what the pleg saw and what probes say, and hands each to the
// method of a SyncHandler that deals with it.
//
// Run is one goroutine and calls the handler from nowhere else, so handlers need no locks against each other; they must not
// block. An event of the stream counts as applied when the handler has returned. Nothing is handled before the runtime
// has been listed once: what runs must be known before anything is added to it. Then Config.Begin comes first.
//
// The kubelet's tick of one second isn't here: each worker keeps its own time.
package syncloop
