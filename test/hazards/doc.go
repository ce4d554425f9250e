// Package hazards holds one scenario for each way in which a node agent is known to hurt its users: what the kubelet's issue
// tracker tells, and what Podstream does in its place.
//
// Each file testdata/NN-name.txt is one such hazard, in the format of package datadriven; its first lines say what it is, and in
// which issues it was reported. The scenarios run the daemons as they are shipped, as processes with real files, sockets and HTTP
// servers; podexecd drives the simulated container runtime. `go test ./test/hazards` runs all of them,
// `go test ./test/hazards -run TestHazards/04` one. The commands stand beside TestHazards.
//
// Nothing sleeps: a command that expects something waits until it has come, and `quiet` waits until each source has been read in full
// twice more, and finds that nothing has come of it.
package hazards
