// Package simruntime is a container runtime without containers: a CRI v1 server whose sandboxes and containers are entries in
// memory that start, run, exit, fail and emit events as their command lines say.
//
// It owns the whole of what a caller can observe through CRI: states, names and their reservation, labels, addresses, images,
// logs, events, and the errors, worded and coded as containerd 1.6 and 1.7 do. A container's command line is its script, in
// the words of the sample program that the tests run on a real runtime (see play), so one manifest serves both. The only
// things it writes are the container logs, checkpoints, and what scripts do to files in mounts.
//
// The daemon simruntimed serves it in a process of its own, so that "containers" outlive podexecd; tests call New and Serve in
// their own process, and can make it fail: calls (Config.Fault), events (Config.EventFault, BreakEvents), processes
// (ExitContainer, KillSandbox), its memory (Forget, ForgetPod). Calls counts what was asked. podexecd itself never imports it.
//
// Goroutines: Serve runs the gRPC server and waits for it. Each running container whose script ends by itself has one that
// waits for that end, and each stream has some; Close waits for those. All state is behind the one lock of Server, which is never held while waiting or
// sending.
//
// It never runs a process, needs no root, opens no port but one of the loopback if it is to serve streams (Config.Streams), and promises
// no order in lists, as containerd promises none.
package simruntime
