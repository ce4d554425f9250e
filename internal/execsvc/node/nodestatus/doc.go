// Package nodestatus makes the status of a Node object from what is known of the machine and its container runtime, as the kubelet's setters
// do (pkg/kubelet/nodestatus).
//
// Of is called by package node, each time that a status may have to be sent; Changed tells whether it has, and Events what there is to tell of
// it. Reasons and messages of conditions are the kubelet's. All of it is pure: the package reads nothing, keeps nothing and runs no goroutines.
package nodestatus
