// Package nfs is the storage.Backend of NFS shares: of PersistentVolumes, and of pods that name a share themselves.
//
// A share is mounted for each pod, at the volume's own directory in the pod's directory, as with the kubelet: by mount(8)
// and the host's mount.nfs, in a helper of package foreign. So each pod's mount is a volume of its own for package
// storage, and a server that doesn't answer delays the pods of its shares only; the helpers of one share are counted
// together. An unmount that takes longer than a minute is forced. Files' group isn't changed, as with the kubelet.
//
// It has no goroutines and no state but its Helpers.
package nfs
