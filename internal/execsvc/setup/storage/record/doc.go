// Package record keeps the records of persistent volumes on disk: what may be staged and published on this node, and
// with which arguments. There is one file of JSON for each driver and volume handle, in a directory of mode 0700 below
// podexecd's root directory.
//
// Package storage is the only caller. It writes a record before each call to a driver (the intent) and after it (the
// answer), so a record never claims less than what may be mounted. A file is replaced as a whole, and is on the disk
// when Write returns. If the disk is full, Write fails, and the call isn't made.
//
// A file that can't be read or that contradicts itself is damaged: Load reports it, and nothing of this package removes
// or overwrites it. Records of another agent are left as they are. Both keep their volume from being used.
//
// The package runs no goroutines. A Dir's methods may be called concurrently for different volumes.
package record
