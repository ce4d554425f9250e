// Package hazards has one scenario for each known way in which a node agent harms its users: the reports in the
// kubelet's issue tracker, and Podstream's behaviour in the same case.
//
// Each file testdata/NN-name.txt is one such hazard, in the format of package datadriven; its first lines describe
// it, and the issues that report it. The scenarios run the released daemons, as processes with real files, sockets
// and HTTP servers; podexecd drives the simulated container runtime. `go test ./test/hazards` runs all of them, `go
// test ./test/hazards -run TestHazards/04` one. The commands are beside TestHazards.
//
// No test sleeps: a command that expects something waits for it, and `quiet` waits until each source has been read in
// full twice more, and checks that nothing has changed.
package hazards
