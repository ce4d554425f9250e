// Package blockdevice finds the block device that a storage driver has put at a path, and holds it.
//
// The backends of package storage call it. A driver's container can replace files beside the device at any time, so the
// path is opened for reference only (O_PATH), what was opened is examined, and everything else is done with the open
// file. Only a link into /dev is followed; Follow, for a path that the node's owner names, follows all. No device is opened for reading except by Hold.
//
// # Holding
//
// A container has its device by number. While a device is open, the kernel gives its number to no other device. If it
// is closed, and disappears (a forced detachment), the next disk of the node may get the number, and the containers of
// this pod would read and write another pod's volume. So Hold has a loop device refer to the block device, as the kubelet
// does: it lasts until Release, also while podexecd doesn't run. The loop device bears the caller's tag, by which it is
// found again, and is read-only; nothing uses it. Loop devices of other programs aren't opened: that may hang as long as the file
// system of their file does. sysfs tells them apart. One of them that has no answer is no error, and removes nothing.
//
// The package runs no goroutines and keeps no state. Its functions may be called concurrently for different tags. It
// never writes to a device, and removes no loop device without the tag.
package blockdevice
