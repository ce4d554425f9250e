// Package initiator works on this machine's iSCSI initiator: sessions, their records of open-iscsi, and their disks. It does so in a
// helper of package foreign, as each of its calls may hang: iscsiadm while a portal doesn't answer, a disk while its target doesn't.
// Package storage/iscsi decides what is done, and has the durable records of it.
//
// # Sessions
//
// A session is named by its target, portal and iface. It is found in sysfs by these three, and used only if it is the one that the
// caller names. Login makes one record of open-iscsi for it, without a discovery: that would make records of all targets of the
// portal, some of which a node may log in to when it boots, and may change records of others. A record that isn't the caller's is
// neither read nor changed.
//
// # Disks
//
// A disk is found in sysfs, beneath its session, and not by a link of /dev/disk/by-path, which may be stale. It is opened before it
// is checked: while it is open, the kernel gives its number to no other disk. It is formatted only if blkid(8) finds nothing on it,
// and its first and last mebibyte can be read, and are zero. It is removed from the machine only if nothing has it, or a partition of it,
// mounted, mapped or open, in whatever namespace. The maps that multipath-tools makes of a multipath device's partitions, which a pod may
// write, belong to it: multipath -f removes them. Other maps, such as those of LVM, keep it.
//
// # CHAP
//
// iscsiadm takes the value of a setting as an argument only. So the passwords are visible in the machine's list of processes for
// as long as one call takes, as with the kubelet. No error and no log has them, nor the output of such a call.
//
// The package has no goroutines and no state. All output is bounded, and so is the time of each call of a program.
package initiator
