// Package apivolumes reads what the API server knows of pods' persistent volumes: claims, PersistentVolumes,
// VolumeAttachments, and the Secrets that CSI drivers need. A node may only get the first three by name: it can neither list
// nor watch them. So a caller that waits for a change has it read again, with growing pauses. Pods that wait for the same
// object share its reads, and all reads together are bounded in number and rate.
//
// Package setup/storage calls a Volumes, also through Attachments, which joins it with the Node's volumesInUse. Claim answers
// from the last read, if the pod has had one, and refreshes it in a goroutine; a pod whose claim has changed is woken. So no
// pod that runs waits for the API server. WaitAttached blocks its caller until the attach-detach controller has attached a
// volume. The goroutines of refreshes end within the time limit of a request, and Close waits for them.
//
// Secret reads a Secret for one call of a CSI driver, by its name. Its values are never kept, stored or logged. Of each other
// object only the parts that volumes need are kept, until Drop is called for the last pod that uses it.
//
// The package writes nothing to the API server: package node posts volumesInUse.
package apivolumes
