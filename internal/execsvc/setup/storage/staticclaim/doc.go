// Package staticclaim resolves the claims of static pods, which have no API server: by the PersistentVolumeClaims,
// PersistentVolumes and CSIDrivers beside the pods' manifests.
//
// A claim that names a PersistentVolume is bound to that, and one that names none to a directory of the node. The binding
// is stored before the volume is first used, and never changes by itself: a claim that then means another volume is an
// error, and so is a PersistentVolume that another claim is bound to. The binding, like the volume, outlives the claim
// and its manifest; RemoveVolume of podexec.v1 ends it (Forget), or an operator removes its file.
//
// Claims are those of a namespace of the node, whichever source has them: pods of two sources that use default/data use
// one volume.
//
// Package storage calls Resolve, in the pods' workers. The package runs no goroutine, and never removes anything by
// itself.
package staticclaim
