// Package daemon is what podconfigd and podexecd have in common as processes: the main itself, the flags they share, the log,
// the lock on the state directory, the id that is kept there, and the metrics page.
//
// Only the mains call it. ServeMetrics runs until its context ends; nothing else here starts goroutines. Signals and the version
// are in package process, which podctl shares.
package daemon
