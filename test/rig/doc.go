// Package rig is the base of the end-to-end tests: a podconfigd and a podexecd as processes, with their own
// directories, sockets and node name, on a runtime that many rigs share.
//
// test/e2e and test/lifecycle use it. Nodes builds the binaries and starts each runtime once, on first use; Start
// starts a pair of daemons on one. It doesn't use package testing, and doesn't wait for pods: the tests do that. It
// runs no goroutines beside those of devnode's processes and of gRPC's connections; Close ends both.
package rig
