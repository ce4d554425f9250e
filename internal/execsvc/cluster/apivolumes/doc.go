// Package apivolumes reads what the API server knows of pods' persistent volumes: claims, PersistentVolumes,
// VolumeAttachments, and the Secrets that CSI drivers need. A node may only get the first three by name: it can neither list
// nor watch them. So an object that a caller waits for is read again, with growing pauses.
//
// Each object has one reader, with one series of pauses, however many pods wait for it, and come and go (reads.go). Another pod has the
// object read at once if it can be used, or was read early for no pod in the last 15 s, and the pauses begin again for another pod once in 5
// minutes. They are kept for 2 minutes after the last use. No result is older than the call; that of a pod's first Claim may be 250 ms
// older. All reads together are bounded in number and rate, and objects get their places in the order of their requests.
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
