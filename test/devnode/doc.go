// Package devnode stands up a node to run pods on, on the machine at hand and beside whatever runs there: a container
// runtime of its own with Podstream's sample images, and the daemons as child processes. `make run` and the end-to-end
// tests are built on it; no daemon imports it.
//
// # What it owns
//
// A Node owns its directory (Config.Dir) and all beneath it: containerd's root and state, its configuration and that of the
// network, the images, and whatever the daemons keep in Node.Path. Close removes all of it, except log/, where each process
// it started has a file with its output, and the lock file. One Node at a time holds a directory, by a lock that dies with its process.
//
// Unix sockets have paths of at most 107 bytes. Where Dir is too long for that, Node.Socket hands out paths in a short
// directory of its own under os.TempDir(), which the symbolic link Dir/sockets points to; it goes when Dir's content goes.
//
// With Config.NetworkNamespace the runtime and podexecd run in a network namespace that the Node makes, mounted beneath Dir. Tests enter
// it with InNetwork. It goes with Close, or with what a killed process left, and with it all that pods have there: interfaces,
// routes, the iptables rules of their ports on the node.
//
// Outside its directory a Node leaves no trace that lasts: pods' networks are point to point, so there is no bridge, their
// interfaces go with the network namespaces, and these are mounted beneath Dir. Without a namespace of the node's own the address range
// is chosen so that no two nodes on one machine share it, no iptables rule is made, and IP forwarding gets switched on, by the
// CNI plugin. The empty directories /run/containerd/s and /sys/fs/cgroup/*/k8s.io stay, as with every containerd.
//
// # What tests break
//
// Runtime().Kill ends containerd and Runtime().Start starts it again, on the pods that lived on. KillShim ends the shim of one
// pod, KillTask the first process of one container or sandbox. All of them are SIGKILL.
//
// # How it ends
//
// Every child gets SIGKILL from the kernel when the process that started it dies, however that comes about. What then still
// stands (containers, their shims, mounts) is cleared by the next Start in the same directory, with the very code that Close
// uses. A process is ended only after it was pinned by a pidfd and seen to be ours: started here, or with this directory in
// its command line, or listed by runc under this directory.
//
// # Goroutines
//
// Each Process has one, locked to its thread, since the kernel ties the parent-death signal to the thread that forked. It
// ends when the process does, and Close waits for it.
package devnode
