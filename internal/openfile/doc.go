// Package openfile opens and reads regular files at paths that an untrusted process may control: manifests, files of
// a volume, logs, files that a container has mounted.
//
// Both daemons use it. It runs no goroutine. Only ReadGiven reads pipes too, and waits for their writers: it is for
// files on the program's own command line. Open, OpenBeneath and Reopen return only regular files of file systems
// that store data; anything else is a KindError and is never opened for reading, so that no device is opened. The
// functions don't wait for the other end of a FIFO, nor for the holder of a lease: that is ErrLeased. ReadAll reads
// at most a given number of bytes, doesn't wait for data, and ends with its context. OpenDirBeneath opens a directory.
// Mount identifies mounts. OpenSocketBeneath and OpenLinkedSocket open the file of a Unix socket, to which Dial connects.
//
// It can't interrupt a system call that waits for a file system's server, such as a hard NFS mount whose server is
// down or a FUSE mount. The caller must bound that wait if such file systems are possible.
package openfile
