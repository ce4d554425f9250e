// Package local is the storage.Backend of PersistentVolumes whose source is a path of this node: a directory, or a block
// device with a file system.
//
// Stage mounts a block device at <kubelet-dir>/plugins/kubernetes.io/local-volume/mounts/PV, and formats it if it has no
// content at all; it does nothing for a directory. Publish binds the directory, or that mount, at the volume's own
// directory in the pod's directory, and changes it to the pod's fsGroup unless another pod has the volume, as the kubelet
// does. The node's owner names the path, so links in it are followed; what it leads to may hang or lie. So all calls are
// made by helpers of package foreign.
//
// With volumeMode Block, Stage mounts nothing, and Publish holds the device with the help of package blockdevice, and links it in the
// pod's directory and in <kubelet-dir>/plugins/kubernetes.io~local-volume/volumeDevices/PV. The link leads to the kernel's file of the
// device in /dev, so that nothing on the PersistentVolume's path is needed, or waited for, after that.
//
// The check of a large device takes hours, and may damage the file system if it is killed. So a mount of a device lasts until it
// ends, whatever becomes of the call that began it; only Close ends it earlier, and a limit of 12 hours. The package's
// goroutines are those of such mounts, and of changes of groups, one for each.
//
// The caller has checked the PersistentVolume's nodeAffinity. A device's file system isn't expanded. The kubelet's event
// AlreadyMountedVolume, for pods with different fsGroups, isn't recorded.
package local
