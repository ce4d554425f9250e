// Package rig is the base of the end-to-end tests: a podconfigd and a podexecd as processes, with their own
// directories, sockets and node name, on a runtime that many rigs share.
//
// test/e2e, test/lifecycle and test/world use all of it. Nodes builds the binaries and starts each runtime once, on
// first use; Start starts a pair of daemons on one. It does not wait for pods: the tests do that. The other tests in
// test/ use what needs no daemons: Main, Parallel, Need, Lack, Poll, Must and Get.
//
// It runs no goroutines beside those of devnode's processes and of gRPC's connections; Close ends both.
package rig
