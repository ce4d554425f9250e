// Package kernel reads what the Linux kernel tells of how much cgroups and the machine use: the files of /sys/fs/cgroup, version 1 or 2, and of
// /proc. Package stats asks it at each reading.
//
// A value that a kernel doesn't have is nil; so the two versions of cgroups come out as one Usage. A cgroup may go at any time: then the error
// is fs.ErrNotExist, whatever the kernel calls it. Parsers take bytes and no file; what they can't make sense of they leave out.
//
// The package runs no goroutines, keeps nothing from one reading to the next and changes nothing. Its callers may ask at the same time.
package kernel
