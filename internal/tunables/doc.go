// Package tunables has the settings of the kernel that the kubelet needs (setupKernelTunables of pkg/kubelet/cm), and
// checks or sets them.
//
// podexecd calls Differing and Set once, at start. Package doctor compares the machine with All. The package runs no
// goroutines and stores nothing. It writes only the files of /proc/sys that All names.
package tunables
