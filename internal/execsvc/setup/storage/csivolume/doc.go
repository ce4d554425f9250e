// Package csivolume is the storage.Backend of CSI drivers, and the Resolver that makes a storage.Volume of a pod's
// volume. It knows what the kubelet puts in the requests to a driver, and where volumes lie below --kubelet-dir.
// Package storage calls it, and decides when; package csi sends the requests.
//
// # Arguments
//
// Resolve decides everything once, and writes it to the volume's StageArgs and PublishArgs, which package storage
// records: the CSIDriver object, the driver's capabilities, the pod's fsGroup, and --kubelet-dir too. A call that is
// repeated after a restart is the same call, also if these have changed meanwhile. Secrets and tokens are references
// there; the Backend reads them for each call that has them.
//
// # Directories
//
// A staged volume is mounted at <kubelet-dir>/plugins/kubernetes.io/csi/DRIVER/SHA256/globalmount, and a published
// one at <kubelet-dir>/pods/UID/volumes/kubernetes.io~csi/NAME/mount; beside both is vol_data.json, for programs that
// expect the kubelet's. Containers of drivers can write there. So each directory is opened without following a link
// or crossing a mount, vol_data.json is compared with what it should be, and nothing is decided by it. A driver isn't
// called with a path that leads through a link, or if a link is in the place of the mount.
//
// Only empty directories are removed, and only after the driver confirmed that it undid the volume. Files that a
// driver leaves in the place of the mount stay, the call fails, and it is repeated until they are gone. The package
// never unmounts anything.
//
// # Block volumes
//
// A block volume is staged at <kubelet-dir>/plugins/kubernetes.io/csi/volumeDevices/staging/NAME. The driver publishes it at
// .../volumeDevices/publish/NAME/UID, as a device or as a link to one in /dev; package blockdevice finds and holds it. The
// container runtime gets <kubelet-dir>/pods/UID/volumeDevices/kubernetes.io~csi/NAME, a link to it. Before each start of a
// container CheckDevice compares the link, the driver's file and the device that is held. The kubelet's directory
// .../volumeDevices/NAME isn't made: it has a bind mount for the kubelet's own lock, and a vol_data.json.
//
// # The group of files
//
// A published volume may be a foreign file system that doesn't answer. Its group is changed in a helper process (package
// foreign), which bounds how many of them are left behind, and a goroutine for each publication waits for it. The change
// continues when the call that started it ends; the next Publish waits for it again. Unpublish stops it. Close ends all of
// them.
//
// # SELinux
//
// Package selinuxmount chooses the context with which a volume is mounted. It is part of the arguments, and a mount option
// of both NodeStageVolume and NodePublishVolume. A volume without one is labelled by the container runtime for each
// container, if it isn't read-only and its file system has labels: the option seclabel in /proc/self/mountinfo.
package csivolume
