// Package apiobjects reads the API objects that pods use besides ConfigMaps and Secrets: services for the
// environment of containers, the runtime handlers of RuntimeClasses, the trust anchors of ClusterTrustBundles, and what
// CSIDrivers say of their volumes.
//
// Run follows each kind of object with a client-go reflector in its own goroutine, by lists in pages and by watches. A
// list under way has one more goroutine, which Run waits for. Run follows ClusterTrustBundles from when the first pod
// uses one, in the newest version of their API that the server has. Only the needed part of each object is kept.
// Packages podsetup and volume, and the parts of storage that resolve volumes, call the Cluster, which answers at once from
// the last read, also while the API server is away. Before the first read a pod of the API server has to wait, and is woken after it; a static pod never waits,
// and runs without the objects.
//
// Services, RuntimeClasses and CSIDrivers are stored in one file each, by two more goroutines each. The objects that were stored
// before a restart are used from when the first attempt to read has failed, or hasn't been answered for some
// seconds, until the first list is read. A file that can't be used is logged and ignored. Stored objects belong to a
// cluster, by its UID (package clusteruid): once an API server answers that shows another UID, they are no longer used,
// nor are those that were read.
// While none answers, they are, also if its address has changed. A list that is stored, and a watch that continues it,
// request the UID: the list twice, before and after it, so that the objects are of one cluster.
//
// The package writes nothing to the API server. Of pods it keeps only the UIDs of those that have used an object.
package apiobjects
