// Package nodeinfo reads what podexecd has to know of the machine that it runs on: how much of everything there is and how much of it
// pods may have, the labels, and what the kernel can do.
//
// Read is called at start, and again by whoever wants to know whether something has changed; it reads a dozen small files and asks for
// the size of one file system. What is a rule and not a reading, such as what is left for pods, is pure. Package admit holds pods
// against it, criconfig and cgroup translate with it, and a Node object can be made of it. The package runs no goroutines, keeps nothing
// and changes nothing.
package nodeinfo
