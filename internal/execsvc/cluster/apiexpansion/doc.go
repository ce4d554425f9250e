// Package apiexpansion has the volumes of claims expanded on the node: the second half of a resize, which the external
// resizer leaves to the node. It decides from the claim and its PersistentVolume whether a volume is to be expanded,
// calls the driver through package storage, and writes the result to the claim's status.
//
// Package setup/storage calls an Expander. Mounted is called before a container may use a volume, and waits for the
// driver. Synced is called at each sync of a running pod and waits for nothing: it decides from the claim as package
// apivolumes has last read it, which is read again every minute or so, and expands in a goroutine, one for each volume
// that is being expanded. Close ends them and waits for them.
//
// decide.go is a pure function with the kubelet's rules: those of claims with allocatedResources, whose expansion can be
// given up (RecoverVolumeExpansionFailure), and those of an older resizer. status.go has the claim's next status. Before a
// driver is called the claim is read once more, and a status is written only to the version that was read.
//
// The package never makes a volume smaller, and never changes a claim's spec.
package apiexpansion
