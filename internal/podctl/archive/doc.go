// Package archive reads and writes the tar archives that `podctl cp` exchanges with a container.
//
// Unpack reads what a tar in a container has written, which is hostile: that program, and the files that it reads, may
// be an attacker's. verifier decides about each entry by its header alone: regular files and directories with clean
// names below the one that was asked for, a bounded number of them, of bounded sizes. tree writes what it lets through,
// below one directory (os.Root): never through a link that exists there, into a temporary file that is renamed when it
// is complete, without setuid and setgid bits. Entries of other kinds, such as links, are skipped and reported. Names
// and sizes that no honest tar writes end everything.
//
// Pack writes the archive of a file or directory of this machine. Of links it follows those to regular files below the
// source.
//
// podctl calls it. It runs no goroutines, connects to nothing, and never runs tar.
package archive
