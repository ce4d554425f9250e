// Package robustness checks what podconfigd promises its consumers (G1 to G10 in podconfig.proto) over long random histories:
// sources that change, fail and hold, that come, go and change places, consumers that stall, drop, resume and filter, and a
// daemon that is killed.
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
// # The simulations
//
// TestSimulation (fast_test.go) drives the parts of podconfigd in this process, hundreds of short lives a second, and shrinks what
// fails; to kill is to abandon them and to go on with the store's file as it was at that moment. TestProcess (process_test.go)
// drives injectd, a podconfigd with sources that tests feed, and kills it with SIGKILL. TestFaults (faults_test.go, with the tag
// failpoints) plants a fault for each promise, and its checker must notice.
//
// TestRelayChain (relay*.go) has injectd, a podconfigd that relays it and another that relays that one, kills each, and holds the last
// one's consumers to the same promises; NewRelayRun learns the end's revisions from a witness, and Relayed compares each pod's versions
// with the first one's oracle. TestRelayFaults plants faults in the relay. As long as one likes:
//
//	ROBUSTNESS_TIME=1h go test -count=1 -timeout=0 -run='TestSimulation|TestProcess|TestRelayChain' -v ./test/robustness
//
// Consumers do what podconfig.proto bids them, and name what they hold whenever pods were left open before; they also come back
// with older cursors, with none, and with such as nobody ever sent.
//
// Only the Recorder is safe for concurrent use. Nothing here but the tests runs goroutines or does I/O. A simulation has one
// goroutine for each open stream, which reads it.
package robustness
