// Package kernel reads the Linux kernel's usage of cgroups and of the machine: the files of /sys/fs/cgroup, version
// 1 or 2, and of /proc. Package stats calls it for each reading.
//
// A value that a kernel doesn't have is nil; so both versions of cgroups become one Usage. A cgroup may disappear at
// any time: then the error is fs.ErrNotExist, whatever the kernel returns. Parsers take bytes, not files; they skip
// what they can't parse.
//
// The package runs no goroutines, keeps no state between readings and changes nothing. It is safe for concurrent
// use.
package kernel
