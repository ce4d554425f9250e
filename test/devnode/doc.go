// Package devnode runs a node for pods on the present machine: a separate container runtime with Podstream's sample
// images, and the daemons as child processes. Other runtimes on the machine aren't affected. `make run` and the
// end-to-end tests use it. No daemon imports it.
//
// # What it owns
//
// A Node owns its directory (Config.Dir) and everything below: containerd's root and state, the configuration of
// containerd and of the network, the images, and the daemons' files in Node.Path. Close removes all of it, except
// log/, which has a file with the output of each started process, and the lock file. Only one Node at a time can use a
// directory. Its lock ends with its process.
//
// Unix sockets have paths of at most 107 bytes. If Dir is too long for that, Node.Socket returns paths in a short
// directory under os.TempDir(), to which the symbolic link Dir/sockets points. It is removed with Dir's content.
//
// With Config.NetworkNamespace, the runtime and podexecd run in a network namespace that the Node creates, mounted
// below Dir. Tests enter it with InNetwork. Close, or the cleanup after a killed process, removes it, and with it the
// pods' interfaces, routes, and the iptables rules of their ports on the node.
//
// Outside its directory a Node leaves nothing permanent. Pods' networks are point to point, so there is no bridge.
// Their interfaces end with the network namespaces, which are mounted below Dir. Without its own namespace, the
// address range is chosen so that no two nodes on one machine share it, no iptables rule is created, and the CNI
// plugin enables IP forwarding. The empty directories /run/containerd/s and /sys/fs/cgroup/*/k8s.io stay, as with
// every containerd.
//
// # Versions of containerd
//
// Tests run on Containerd2, and on Containerd17 where the runtime matters. Both are in .tools, so that the machine's
// version doesn't matter: 2 is built from its Go module, because a version of it stays available; that takes two
// minutes. 1.7 is unpacked from Debian's package, in seconds. Hence Default, the choice of `make run`, is the machine's
// own containerd from version 1.7 on, and otherwise the 1.7 in .tools. On Installed, 1.6 on Debian 12, only
// TestInstalledContainerd of test/lifecycle runs. All use the machine's runc.
//
// # Faults
//
// Runtime().Kill ends containerd and Runtime().Start starts it again, with the surviving pods. KillShim ends the shim
// of one pod. KillTask ends the first process of one container or sandbox. PowerOff ends all at once, as a power cut does. All of
// them use SIGKILL.
//
// # Cleanup
//
// When the process that started the children ends for any reason, the kernel sends SIGKILL to each child. The next
// Start in the same directory removes the rest (containers, their shims, mounts), with the code of Close. A process is
// killed only after it was pinned by a pidfd and identified: it was started here, or has this directory in its command
// line, or is listed by runc under this directory.
//
// # Goroutines
//
// Each Process has a goroutine that is locked to its thread, because the kernel ties the parent-death signal to the
// thread that forked. It ends when the process ends, and Close waits for it.
package devnode
