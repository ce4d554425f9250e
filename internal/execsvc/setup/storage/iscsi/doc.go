// Package iscsi is the storage.Backend of iSCSI disks: of PersistentVolumes, and of pods that name a target themselves.
//
// Stage logs in to the sessions of a volume that don't exist yet, finds the disk, and mounts it at
// <kubelet-dir>/plugins/kubernetes.io/iscsi/iface-IFACE/PORTAL-TARGET-lun-LUN, after a format if it is blank. Publish binds that
// mount at the volume's directory in the pod's directory, as the kubelet does, and changes it to the pod's fsGroup. A block volume
// isn't mounted: its disk is held and linked for each pod. All that may hang is done by helpers of package foreign; what they do is
// package initiator's.
//
// # Sessions
//
// Volumes share a session if target, portal and iface are the same, and so is the Secret. A session is recorded on disk before it is
// made, with its volumes: what has no record isn't podexecd's, and is neither used, nor ended, nor changed. The session ends after
// its last volume, unless something on the machine uses a disk of it: then a sweep, at the start and every ten minutes, ends it later.
// A record of another boot is believed only in that the
// records of open-iscsi with podexecd's settings are podexecd's. A session whose number isn't known is podexecd's only between the mark
// that a login is begun, which is on disk before it, and its result. A session to which the login failed has no record afterwards: other
// volumes and programs may have it, and a volume with several portals is attached by the others.
//
// A volume's handle has its portal, target, logical unit, and a hash of how it is mounted and authenticated. So pods that ask for
// the same share one mount; one that asks for another file system, option, iface or Secret is another volume, and is refused as long
// as the disk or the session is in use. Neither a pod with a wrong Secret nor one without keeps the others from it longer than its
// own attempt takes. The disk's identity, if it has one, keeps it from being used by two paths at the same time.
//
// open-iscsi gets no host names: it would resolve those of all sessions in each call, and a name whose address changes, or whose server
// doesn't answer, would keep other volumes' sessions from being made and ended. The names of a volume's portals are looked up before the
// locks are taken, and the addresses stay until it is unstaged. Sessions with names of an earlier podexecd stay as they are.
//
// # Calls without an answer
//
// iscsid may go on with a login after iscsiadm was killed. So a session isn't taken for ended until settleTime after such a login.
// A mount lasts until it ends, as it may check or format the disk; only Close ends it earlier. The package's goroutines are those of
// such mounts, and of changes of groups, one for each, and one for the sweep.
//
// There is one attachment at a time for each session: sessions are locked in the order of their names, and no lock is held during a
// mount. An unmount has the lock of the mount point, and so has an attachment that may mount there. Nothing here protects a disk from being mounted on two nodes: for a PersistentVolume that is ReadWriteOnce, the attach-detach
// controller does. A file system isn't expanded.
package iscsi
