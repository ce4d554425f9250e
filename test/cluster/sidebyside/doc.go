// Package sidebyside runs the commands of the table in docs/podctl.md beside each other: those of kubectl, crictl and
// podman, and podctl's. Where both columns have an answer, the exit codes and the answers must agree: names, states, log
// lines, exit codes of commands, copied files, forwarded bytes. A row that can't be run, and an answer that differs,
// have their reason in the table of rows_test.go.
//
// One node serves all: podconfigd and podexecd on a containerd, as a node of a real API server. kubectl asks the API
// server, crictl the containerd, podctl the node. podman has pods of its own, of the same names, images and commands:
// they run in namespaces that end with the test, with storage in the test's directory.
//
// It needs root, containerd, podman and the programs that `make test-side-by-side` builds.
//
// # Goroutines
//
// A command that goes on has one, until the command ends.
package sidebyside
