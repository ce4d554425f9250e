// Package rig is what the end-to-end tests stand on: a podconfigd and a podexecd as processes, with directories, sockets and a node
// name of their own, on a runtime that many rigs share.
//
// test/e2e and test/lifecycle use it. Nodes builds the binaries and starts each runtime once, when it is first asked for; Start
// starts a pair of daemons on one. It knows nothing of package testing, and waits for nothing that pods do: tests await that in their
// own ways. It runs no goroutines but those of devnode's processes and of gRPC's connections; Close ends both.
package rig
