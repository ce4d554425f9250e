package volume

import "golang.org/x/sys/unix"

// NoSwap reports whether the kernel can keep a tmpfs, and so a Secret's volume, out of the swap. Kernels before 6.4
// can't, nor can any in a user namespace. It mounts nothing.
func NoSwap() bool {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fs) }()
	return unix.FsconfigSetFlag(fs, noSwap) == nil
}
