// Package csi calls the node service of CSI drivers (github.com/container-storage-interface/spec, version 1).
//
// Drivers is the plugins.Kind of CSI drivers: package plugins hands it each driver whose registration socket appears. It owns the
// list of registered drivers, with the answers of NodeGetInfo and NodeGetCapabilities, which are asked once for each
// registration. A Driver has the calls. Package storage makes them for volumes; the Node's CSINode has the list of drivers.
//
// # Calls
//
// Each call ends after CallLimit at the latest, and is sent once: the caller decides whether it is repeated. Answers are bounded
// in bytes, and their fields in number, length and form. Calls for one driver share a connection. It belongs to one file of
// a socket: if another file has taken its place, the next call makes a new connection, and calls that are under way end on the old one,
// also if the driver is no longer registered.
//
// # Errors
//
// The error of a call is an *Error, whose text is that of gRPC, as with the kubelet. It has no secrets: values of
// fields that the specification marks as secret (csi_secret) are replaced if the driver repeats them. IsFinal reports whether the
// driver has said that it has done nothing; all other errors may mean that the volume is staged or published.
//
// Drivers.mu is taken before a Driver's lock. No lock is held during a call.
//
// The package starts no goroutines; gRPC has some for each connection, until its Driver is closed and its last call has
// ended. It mounts nothing, and reads no files but the socket.
package csi
