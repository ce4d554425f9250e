// Package exits reports when the processes of containers end, as the kernel sees it: at once, on every runtime, and
// without a call to the runtime.
//
// A Watcher has a pidfd for each process that it follows, and one epoll over all of them. The pleg follows the running
// containers, and reads a pod when one of its processes has ended. The exit code comes from the runtime, a little later
// than the kernel's event.
//
// # Identity of a process
//
// The runtime reports a PID, and this PID may be another process's: it was reused, or it is of another PID namespace,
// as when podexecd runs in a container that doesn't share the node's. So the process is first pinned by a pidfd. Then
// its cgroup must have the container's ID. Then the pidfd's process must still be alive: only then was it its cgroup
// that was read. A process that fails a check isn't followed. That includes runtimes without a cgroup for each
// container, as those that run containers in a virtual machine: the process that they report is often the machine's.
//
// Two cases remain. A PID without a process counts as a process that ended, though it may be one of another namespace;
// the runtime then reports a running container, and the caller must handle that. And a container's first process may
// end, and its PID be reused by another process of the same container, between the runtime's answer and Follow; then
// the end of that one is reported. A container without a PID namespace of its own may have such processes, but runtimes
// kill them when the first one ends.
//
// Each Watcher runs one goroutine, from New to Close. The package never signals a process (package strays does), and never waits for one as a
// parent does.
package exits
