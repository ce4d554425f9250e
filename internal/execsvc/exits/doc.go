// Package exits tells when the processes of containers end, as the kernel sees it: at once, on every runtime, and without asking the
// runtime for anything.
//
// A Watcher holds a pidfd for each process that it follows, and one epoll over all of them. The pleg follows what runs, and has the pod
// read when something of it has ended. What the container ended with is the runtime's to say, and it says so a little later than the
// kernel.
//
// # Whose process it is
//
// A runtime tells a number, and a number may be another process's: it was used again, or it counts in another pid namespace, as when
// podexecd runs in a container that doesn't share the node's. So the process is pinned by a pidfd first, then its cgroup must bear the
// container's id, and then the pidfd must still be of a process that lives: only so was it its cgroup that was read. What isn't known
// for sure isn't followed. That includes runtimes that have no cgroup for each container, as those that run them in a virtual machine:
// the process that they name is often the machine's.
//
// What is left: a number that no process has counts as a process that ended, though it may be one of another namespace; the runtime's
// word is against it then, and it is for the caller to see that. And a container's first process may end and its number go to another
// one of the same container in the time between the runtime's answer and Follow; then it is that one's end that is told. Without a pid
// namespace of its own a container may have such processes, but runtimes kill them when the first one ends.
//
// Each Watcher runs one goroutine, from New to Close. The package never signals a process, and never waits for one as a parent does.
package exits
