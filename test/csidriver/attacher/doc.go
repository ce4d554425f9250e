// Package attacher is the external attacher of a CSI driver for tests: it does what the attach-detach controller of a cluster asks for by
// VolumeAttachments.
//
// For each VolumeAttachment of its driver it adds a finalizer, calls ControllerPublishVolume and sets status.attached. When the object is
// deleted, it calls ControllerUnpublishVolume and removes the finalizer. Errors are written to the object's status, as with the attacher
// of real drivers, and the calls are repeated. The annotations of the object keep the volume's handle and the node's ID, so
// that a volume is also detached after its PersistentVolume or its node has gone.
//
// Tests of clusters with the attach-detach controller start one beside a csidriver.Driver whose OtherNodes are the nodes. It never
// makes or deletes a VolumeAttachment.
//
// # Goroutines
//
// An informer and one worker, with those of client-go's queue. Stop returns after the informer and the worker have ended.
package attacher
