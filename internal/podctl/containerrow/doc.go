// Package containerrow makes rows of a pod's containers, as `podman ps` and `crictl ps` show them, from the status that
// podexecd observes.
//
// It is pure: it makes no calls and starts no goroutines. `podctl ps` prints its rows.
package containerrow
