// Package clusteruid reads the UID of a cluster: that of its Service default/kubernetes.
//
// Kubernetes has no object for the cluster itself. This Service is made by each kube-apiserver once its store is empty,
// lasts as long as the store, and is one of the few objects that a node may read (system:node: get of services). The
// address of the API server isn't an identity: it changes with a load balancer, and another cluster may answer at it.
//
// Both daemons use it: podconfigd's source api, so that another cluster's answers don't remove pods, and podexecd, so
// that stored objects aren't used in another cluster. It runs no goroutine and stores nothing.
//
// The UID is no proof against a server that lies: TLS authenticates the server. It has two limits. A cluster that was
// copied, store and all, has the UID of its original. And if the Service is deleted, kube-apiserver makes it again within
// ten seconds, with another UID.
package clusteruid
