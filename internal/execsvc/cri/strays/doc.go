// Package strays kills commands that podexecd has run in containers, and that go on although their callers have gone.
//
// CRI can't end a command. A runtime closes its standard input, which ends one that reads; one that writes may block
// for ever, because the runtime keeps the other end of its output open. So such a command is killed as a process of
// this machine: one whose cgroup is the container's, and whose arguments are the command's, which has a random mark. Only
// the command has the mark, or a process of the same container that copies it on purpose. The process is pinned by a
// pidfd before all that is read, and is signalled by it: if its number is another process's by then, the signal fails.
// What can't be verified isn't killed.
//
// Package podexecapi calls it for the tar of a copy. It runs no goroutines. A container in a virtual machine, or of a
// podexecd that doesn't share the node's PID namespace, has no such processes, and keeps its commands.
//
// /proc/PID/cmdline is memory of the process. Kernels since 4.17 read only anonymous memory for it, which a process can
// make block by userfaultfd with CAP_SYS_PTRACE only. Kill blocks then, so the caller must bound how often it is called. Concurrent calls
// share the search for the processes of their containers, which reads nothing that can block, but not what follows it.
package strays
