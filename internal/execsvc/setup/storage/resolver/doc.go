// Package resolver is the storage.Claims of podexecd: it finds the source of a pod's volume, and has the package of the
// backend that sets up this source make a storage.Volume of it. Sources of in-tree plugins that Kubernetes moved to CSI are
// translated first (package intree). For a claim it checks the nodeAffinity of the
// PersistentVolume first, as the kubelet does. It decides which PersistentVolumes pods don't share, for all backends: those that are only
// ReadWriteOncePod.
//
// The workers of pods call it, through package storage. It has no goroutines and no state.
package resolver
