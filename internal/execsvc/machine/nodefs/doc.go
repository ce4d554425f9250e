// Package nodefs bounds how long podexecd waits for file systems of the node that may not answer: those beneath hostPath
// volumes, and the disks of images and containers. A system call on a file system whose server is away, such as a
// hard NFS mount, can't be interrupted.
//
// Packages volume, runtime and eviction use such paths through a Waits. Each look has a goroutine of its own, and so a
// thread of the process if the file system doesn't answer. After its time-out a look is abandoned; its goroutine ends
// with the system call. The number of looks is bounded, in shares of pods and namespaces.
package nodefs
