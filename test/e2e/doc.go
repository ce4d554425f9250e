// Package e2e tests the daemons as a user meets them: real processes, real manifests, real sockets, and a real containerd; each
// test that can runs on the simulated runtime too.
//
// A test makes a rig: a podconfigd and a podexecd of its own, with their own directories and node name, on a runtime that all
// tests of the run share (test/rig). It polls for what it awaits. How pods live and die is the matter of test/lifecycle.
package e2e
