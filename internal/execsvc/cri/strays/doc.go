// Package strays kills commands that podexecd has run in containers, and that go on although their callers have gone.
//
// CRI can't end a command. A runtime closes its standard input, which ends one that reads; one that writes may block
// for ever, because the runtime keeps the other end of its output open. So such a command is killed as a process of
// this machine: one whose cgroup is the container's, whose parent is outside of the container, so that it was not
// started there, and whose arguments are the command's. The process is pinned by a pidfd before all that is read, and
// must be alive after it. What can't be verified isn't killed.
//
// Package podexecapi calls it for tar, whose command is another one for each copy. It runs no goroutines. A container
// in a virtual machine, or of a podexecd that doesn't share the node's PID namespace, has no such processes, and keeps
// its commands. /proc/PID/cmdline reads the process's memory, which a hostile container can make block; then Kill
// blocks, and the caller must bound how often it is called.
package strays
