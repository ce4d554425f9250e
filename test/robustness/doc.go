// Package robustness checks podconfigd's guarantees (G1 to G11 in podconfig.proto) over long random histories:
// sources that change, fail and hold, that are added, removed and reordered, consumers that stall, drop, resume and
// filter, and a daemon that is killed.
//
// A simulation (in the tests of this package) drives a daemon and records all actions and all received messages, as a
// History. NewRun adds the expected state after each step, computed by an oracle (model.go) that starts from scratch
// each time and shares no code with the merge. Then each guarantee has its own checker, a pure function in the file
// of its name, that checks the history:
//
//	ordered.go  reliable.go  unique.go   atomic.go    minimal.go
//	durable.go  resumable.go isolated.go ready.go     filtered.go
//	forward.go
//
// A consumer's pods are computed from the messages that it received, by the duties of podconfig.proto (replica.go),
// so the checkers don't depend on package client either. passage.go cuts a stream at its cursors and compares the
// two.
//
// # The simulations
//
// TestSimulation (fast_test.go) drives the parts of podconfigd in this process, hundreds of short runs a second, and
// shrinks failures; a kill abandons them and continues with the store's file as of that moment. TestProcess
// (process_test.go) drives injectd, a podconfigd with sources that tests feed, and kills it with SIGKILL. TestFaults
// (faults_test.go, with the tag failpoints) adds a fault for each guarantee, and its checker must detect it.
//
// TestGateways (gateways_test.go) has several daemons in this process whose source api follows one API server, a model
// (truth.go). Each is cut off, restarted with its store, an old copy of it or none, and reads on, while consumers move
// between them; the cluster's history goes back, or another cluster is at its address. Only Forward checks these histories
// (gateways.go): it compares what a consumer applies with the log of the API server.
//
// TestRelayChain (relay*.go) has injectd, a podconfigd that relays it and another that relays that one, kills each,
// and checks the same guarantees for the last one's consumers; NewRelayRun takes the end's revisions from a witness,
// and Relayed compares each pod's versions with the first one's oracle. TestRelayFaults adds faults in the relay. To
// run for any time:
//
//	ROBUSTNESS_TIME=1h go test -count=1 -timeout=0 -run='TestSimulation|TestGateways|TestProcess|TestRelayChain' -v ./test/robustness
//
// Consumers follow podconfig.proto, and send known_pods whenever pods were unsettled; they also resume with older
// cursors, with none, and with invented ones.
//
// Only the Recorder is safe for concurrent use. Only the tests run goroutines or do I/O. A simulation has one
// goroutine for each open stream, which reads it.
package robustness
