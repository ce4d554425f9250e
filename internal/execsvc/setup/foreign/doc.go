// Package foreign accesses file systems that may hang or lie: an NFS server that doesn't answer, a FUSE daemon that has
// died, a disk behind a network. It does so in helper processes, as the kernel may leave a process that waits for such a
// file system unkillable (state D). podexecd itself never stats, opens or walks a path on such a mount.
//
// Package volume, and the backends of package storage, call Helpers.Do with one Job: to change a volume to a group, to
// bind or remove a subPath, to ask for the usage, to mount, to unmount. Package claimvolumes calls it for what package tree does
// with the directories of claims; the archive of Export and Import is a pipe, the helper's descriptor 3. The helper is podexecd's own program, started with
// another name: its main calls Main first. The job is one JSON value on the helper's standard input, the answer one on its
// standard output; both are bounded, as are the texts in it. The helper has no further descriptors, its environment is PATH
// and the settings of Go's runtime, and its name and arguments name the job and the volume, for ps. It ends when podexecd
// does: the pipe of its input is closed then.
//
// A Job that doesn't end with its context is abandoned: the helper, and what it has started, are killed, and counted until
// they have ended, also by the next start of podexecd. A volume has at most MaxHelpers of them; a further job is refused at once, with a BusyError.
// An unmount isn't refused before there are twice as many. There is
// one goroutine for each helper, which ends with it. A job that must not be killed with its caller, as it would begin again each
// time, is a call of Lasting: the change of a group by Groups, and the mount of a device that is checked first.
//
// A mount that was abandoned may still be made when its server answers. Until its helper, and what that has started, has ended, nothing
// else is mounted at its target, and an unmount there doesn't succeed: both are a BusyError with the target. The next start of podexecd
// finds mount(8) and its children by a note on disk (notes.go), as the helper itself has ended with podexecd; also if podexecd is another
// container now, with the machine's PID namespace. The same goes for the hold of a block device, whose target is its tag.
//
// The package decides nothing about volumes. It never removes anything through a mount, and never detaches a mount that is
// busy.
package foreign
