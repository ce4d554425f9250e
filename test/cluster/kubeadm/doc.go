// Package kubeadm has the test of `make test-kubeadm`: kubeadm makes a cluster of two nodes whose kubelet is Podstream's, and
// removes it again. With AGENT=kubelet the kubelet itself runs the nodes, which checks the test.
//
// A node is a set of namespaces on this machine: network, mounts, processes, host name and IPC. Its /etc, /var, /usr and /opt
// are overlays, so that kubeadm and the agent use their usual paths and change nothing of the machine. When the test's process
// ends, the kernel ends the first process of each node, and with it all others.
package kubeadm
