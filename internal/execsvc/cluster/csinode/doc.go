// Package csinode keeps this node's CSINode object at the API server: the CSI drivers that are registered on the node, with the
// driver's ID of the node, its topology keys, and how many volumes it can have here. It also keeps what drivers say of the
// node in the Node object: topology labels, and the annotation with the drivers' IDs.
//
// Keeper.Run has one goroutine, and one more for each driver whose CSIDriver has nodeAllocatableUpdatePeriodSeconds: it has
// the driver asked again periodically. Nothing waits for this package. While the API server can't be reached it retries,
// with growing pauses, and logs that once.
//
// A driver is added at once. It is removed some seconds after its end, so that the restart of its registrar changes nothing.
// Drivers that the CSINode had before podexecd's start have some minutes to register again. The CSINode belongs to the
// Node with its UID: one of an earlier Node with the same name is deleted, and made again.
//
// The API server may refuse what one driver says, for example a label that a node may not set on itself. That driver's part
// is then left as it is, without an entry whose ID has changed. The refusal is logged once, and other drivers aren't
// affected: each one has its own requests.
// As with the kubelet, a topology that differs from an existing label of the Node is such a refusal, and labels are never
// removed.
//
// The package never calls a driver itself, and writes no status of the Node.
package csinode
