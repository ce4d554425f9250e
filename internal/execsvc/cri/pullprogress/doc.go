// Package pullprogress finds out how far the pulls of images are: how many bytes of an image's layers the node has.
//
// CRI doesn't report it. containerd's content store, on the same socket, has the manifests and layers, and those that
// arrive. A pull is one of a name, and no record connects the name with its manifest before the pull has ended. But a
// pull labels each manifest with its repository before it requests the layers. So the manifests of a repository whose
// labels were set after the pull began are the pull's. If several images of one repository are pulled at a time, each
// pull has the sum of all of them.
//
// Package image calls it, once a second at most, and only while a pull runs. The store has no watch, so this is the one
// thing in podexecd that is polled. It runs no goroutines and has no lock: one goroutine at a time may use a Reader. It
// changes nothing, and never requests anything of a registry. What a manifest states is the registry's claim: sizes are
// added without overflow, and a manifest beyond the bounds has no progress.
package pullprogress
