package eviction

// Disks are directories on imagefs and on containerfs, from the runtime's ImageFsInfo.
type Disks struct {
	// Images is a directory on the file system of images. Containers is one on that of writable layers; empty: they are
	// with the images.
	Images, Containers string
}

// layout has the devices of nodefs, imagefs and containerfs. Zero: they are one file system.
type layout struct{ node, image, container uint64 }

// contents are the kinds of files that a file system has.
type contents struct{ podFiles, writableLayers, images bool }

// on returns what the file system of a signal has, and so what can be removed from it, and which files of pods count
// there. Volumes and logs are on nodefs.
//
// The result is the kubelet's for the layouts that it supports: one file system, images and writable layers on another
// one, and only images on another one. For others, of which the kubelet removes and counts the wrong files, it follows
// from the devices.
func (l layout) on(signal Signal) contents {
	at := l.node
	switch signal {
	case ImageFsAvailable, ImageFsInodesFree:
		at = l.image
	case ContainerFsAvailable, ContainerFsInodesFree:
		at = l.container
	}
	return contents{podFiles: at == l.node, writableLayers: at == l.container, images: at == l.image}
}

// ownContainerFs reports whether writable layers have a file system of their own. Otherwise the signals of containerfs
// are those of nodefs or imagefs, with the same thresholds, and aren't observed again.
func (l layout) ownContainerFs() bool { return l.container != l.node && l.container != l.image }
