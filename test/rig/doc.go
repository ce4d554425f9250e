// Package rig is the base of the end-to-end tests: a podconfigd and a podexecd as processes, with their own
// directories, sockets and node name, on a runtime that many rigs share.
//
// test/e2e and test/lifecycle use it. Nodes builds the binaries and starts each runtime once, on first use. Start
// starts a pair of daemons on one runtime. The package doesn't use package testing, and doesn't wait for pods; the
// tests do. It runs no goroutines except those of devnode's processes and of gRPC's connections. Close ends both.
package rig
