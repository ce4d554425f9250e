// Command devnode is what `make run` starts: a node on this machine with both daemons and a sample pod, until Ctrl-C.
//
// It keeps all that it makes in one directory, .run by default, and leaves nothing there but the logs and the lock
// file. The environment variable RUNTIME chooses the container runtime: empty for a private containerd, "sim" for the
// simulated one, or the path of the CRI socket of a runtime that is there already.
package main
