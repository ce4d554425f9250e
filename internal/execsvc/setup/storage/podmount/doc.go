// Package podmount mounts and unmounts volumes at their own directory in a pod's directory, as the kubelet's plugins that
// aren't CSI do: pods/UID/volumes/kubernetes.io~nfs/NAME. It is for the backends nfs and local of package storage.
//
// Its calls are made by a helper of package foreign, and it says what their errors mean for package storage. It has no
// goroutines and no state. Containers of CSI drivers may write to the pods' directories: a mount point is only made where
// no link leads, and its directory is never removed here.
package podmount
