// Package nodeinfo reads the properties of the machine that podexecd needs: its capacity, its allocatable resources,
// its labels, and the kernel's features.
//
// Read is called at start, and again to detect changes. It reads a dozen small files and the size of one file system.
// Rules, such as the allocatable resources, are pure functions. Package admit checks pods against the result, criconfig
// and cgroup translate with it, and the Node object is made of it. The package runs no goroutines, stores nothing and
// changes nothing.
package nodeinfo
