// Package selinuxmount decides with which SELinux context a persistent volume is mounted, and whether the container
// runtime has to label its files instead. A mount with a context takes no time; labels are set file by file.
//
// Package csivolume calls Chooser.Context when it resolves a volume, and writes the context to the arguments of the
// volume's calls. Package storage keeps pods with different contexts from one volume, and counts that in Metrics.
// Node has the labels of this node's policy, by the library of the container runtimes.
//
// A context is used if all of this is so, as in Kubernetes 1.37:
//
//   - SELinux is enabled on the node, enforcing or permissive.
//   - seLinuxMount of the CSIDriver is true, and the volume is a PersistentVolume with a file system.
//   - All containers that mount the volume have the same label, by their own seLinuxOptions or else the pod's; those
//     without options don't count. The options have a level: without one the runtime gives each container a random one.
//   - seLinuxChangePolicy of the pod isn't Recursive.
//   - The feature gate SELinuxMount is on, or the volume's only access mode is ReadWriteOncePod.
//
// The package runs no goroutine, accesses no path of a volume, and reads no labels of files.
package selinuxmount
