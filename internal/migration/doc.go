// Package migration reads a node on which a kubelet runs, and has package adoption say what happens to each pod when Podstream
// takes the kubelet's place.
//
// `podctl migrate --dry-run` calls Examine. It reads the sandboxes and containers of the container runtime, the kubelet's
// directories, the kubelet's configuration with the manifests of its static pods, and the node's pods: at the API server, by the
// kubelet's own kubeconfig, or in a file. It changes nothing, and the kubelet may run meanwhile. What can't be read is a note, or
// an error if the caller has named it; without the runtime there is no plan.
//
// Answers and files are bounded in bytes, items and time, and what is kept of them in bytes and items. Manifests are parsed by
// package manifest, as podconfigd does, and a pod that podconfigd would reject doesn't count.
//
// Each part is read in a goroutine of its own. Examine waits for it, unless its time is over and it doesn't return, because a system
// call waits. The plugin that a kubeconfig may name for its credentials is started by client-go.
package migration
