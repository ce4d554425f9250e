// Package simruntime is a container runtime without containers: a CRI v1 server with sandboxes and containers in
// memory. Their command lines determine how they start, run, exit, fail and emit events.
//
// It implements everything that a caller can observe through CRI: states, reserved names, labels, addresses, images,
// logs, events, and errors with the texts and codes of containerd 1.6 and 1.7. A container's command line is its
// script, with the commands of the sample program for tests on a real runtime (see play). So one manifest works with
// both. The package writes only container logs, checkpoints, and the files that scripts write in mounts.
//
// The daemon simruntimed serves it in a separate process, so that "containers" survive a restart of podexecd. Tests
// call New and Serve in their own process, and can inject faults: in calls (Config.Fault), events (Config.EventFault,
// BreakEvents), processes (ExitContainer, KillSandbox) and state (DropAll, DropPod). Calls counts requests. podexecd
// itself never imports the package.
//
// Goroutines: Serve runs the gRPC server and waits for it. Each running container whose script ends by itself has a
// goroutine that waits for that end, and each stream has several. Close waits for all of them. One lock of Server
// protects all state. It is never held while waiting or sending.
//
// The package never runs a process, doesn't need root, and opens no port except one on the loopback interface with
// Config.Streams. Lists have no order, as in containerd.
package simruntime
