// Package cluster has what pods take from the API server besides ConfigMaps and Secrets: the services that their containers find in their
// environment, the runtime's handlers of RuntimeClasses, and the trust anchors of ClusterTrustBundles.
//
// Run follows each kind of object in a goroutine of its own, by lists in pages and watches, from the start; ClusterTrustBundles from
// when the first pod asks for one, in the newest version of their API that the server has. Of each object only what pods need is kept.
// Packages world and volume ask; they are answered at once from what was read last, while the API server is away too. Before anything
// was read a pod of the API server has to wait, and is woken when it was; a static pod never waits: it goes without.
//
// Services and RuntimeClasses are remembered in a file each, which two goroutines more see to. What an earlier life wrote there counts only
// from when a first try to read has failed, or wasn't answered for some seconds, until the first list is there. A file that can't be used
// is a warning, and is as none.
//
// The package writes nothing to the API server, and knows nothing of pods but who has asked.
package cluster
