// Package apivolumes reads what the API server knows of pods' persistent volumes: claims, PersistentVolumes,
// VolumeAttachments, and the Secrets that CSI drivers need. A node may only get the first three by name: it can neither list
// nor watch them. So an object that a caller waits for is read again, with growing pauses.
//
// All pods that wait for an object share its reads, and the pauses between them. A call has the object read at once, unless its last
// read was not enough for a caller, or failed: then that is allowed once in 15 s. For a new pod, the pauses start at the shortest one again,
// once in 5 minutes. The pauses are kept for 2 minutes after the last use. So pods that come, change and go don't have an object read more
// often. An object that is returned was read after the call, or, for a pod's first Claim, at most 250 ms before; an error may be that of
// the last read. All reads together are bounded in number and rate. They are made in the order in which they were requested, and each
// object has one at a time.
//
// Package setup/storage calls a Volumes, also through Attachments, which joins it with the Node's volumesInUse. Claim answers
// from the last read, if the pod has had one, and refreshes it in a goroutine for all pods that use it; a pod whose claim has changed
// is woken. So no pod that runs waits for the API server. WaitAttached blocks its caller until the attach-detach controller has attached a
// volume. An object that is waited for has a goroutine until the last wait ends. Those of requests and refreshes end within the time
// limit of a request. Close ends all of them, and waits for them.
//
// Secret reads a Secret for one call of a CSI driver, by its name. Its values are never kept, stored or logged. Of each other
// object only the parts that volumes need are kept, until Drop is called for the last pod that uses it.
//
// The package writes nothing to the API server: package node posts volumesInUse.
package apivolumes
