// Package robustness checks what podconfigd promises its consumers (G1 to G10 in podconfig.proto) over long random histories:
// sources that change, fail and hold, consumers that stall, drop, resume and filter, and a daemon that is killed.
//
// A simulation (in the tests of this package) drives a daemon and writes down all that was done and all that was received, as
// a History. NewRun lays beside it what should be true after each step, worked out by an oracle (model.go) that looks at
// everything each time and shares no code with the merge. Then each promise has a checker of its own, a pure function in the
// file of its name, that says whether the history keeps it:
//
//	ordered.go  reliable.go  unique.go   atomic.go    minimal.go
//	durable.go  resumable.go isolated.go ready.go     filtered.go
//
// What a consumer holds is worked out from the messages that it received, by the duties of podconfig.proto (replica.go), so the
// checkers don't depend on package client either. passage.go cuts a stream at its cursors and compares the two.
//
// Only the Recorder is safe for concurrent use. Nothing here but the tests runs goroutines or does I/O.
package robustness
