// Package e2e tests the daemons from a user's side: real processes, real manifests, real sockets, and a real
// containerd. Some tests also run on the simulated runtime.
//
// A test makes a rig: its own podconfigd and podexecd, with their own directories and node name, on a runtime that
// all tests of the run share (test/rig). It polls for the expected state. test/lifecycle tests the lifecycle of pods.
package e2e
