// Package devnode runs a node for pods on the present machine, beside whatever else runs there: a separate container
// runtime with Podstream's sample images, and the daemons as child processes. `make run` and the end-to-end tests use
// it; no daemon imports it.
//
// # What it owns
//
// A Node owns its directory (Config.Dir) and everything below: containerd's root and state, its configuration and
// that of the network, the images, and the daemons' files in Node.Path. Close removes all of it, except log/, where
// each process that it started has a file with its output, and the lock file. One Node at a time holds a directory,
// by a lock that ends with its process.
//
// Unix sockets have paths of at most 107 bytes. If Dir is too long for that, Node.Socket returns paths in a short
// directory under os.TempDir(), to which the symbolic link Dir/sockets points; it is removed with Dir's content.
//
// With Config.NetworkNamespace the runtime and podexecd run in a network namespace that the Node makes, mounted below
// Dir. Tests enter it with InNetwork. Close removes it, or the cleanup after a killed process, and with it the pods'
// interfaces, routes, and the iptables rules of their ports on the node.
//
// Outside its directory a Node leaves nothing permanent: pods' networks are point to point, so there is no bridge,
// their interfaces end with the network namespaces, and these are mounted below Dir. Without its own namespace, the
// address range is chosen so that no two nodes on one machine share it, no iptables rule is made, and the CNI plugin
// switches IP forwarding on. The empty directories /run/containerd/s and /sys/fs/cgroup/*/k8s.io stay, as with every
// containerd.
//
// # Faults
//
// Runtime().Kill ends containerd and Runtime().Start starts it again, with the surviving pods. KillShim ends the shim
// of one pod, KillTask the first process of one container or sandbox. All of them use SIGKILL.
//
// # The end
//
// Every child gets SIGKILL from the kernel when the process that started it dies, in whatever way. The next Start in
// the same directory removes the rest (containers, their shims, mounts), with the code of Close. A process is ended
// only after it was pinned by a pidfd and identified: started here, or with this directory in its command line, or
// listed by runc under this directory.
//
// # Goroutines
//
// Each Process has one, locked to its thread, since the kernel ties the parent-death signal to the thread that
// forked. It ends when the process does, and Close waits for it.
package devnode
