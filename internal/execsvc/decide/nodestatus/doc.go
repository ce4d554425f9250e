// Package nodestatus computes the status of a Node object from facts of the machine and its container runtime, as the
// kubelet's setters do (pkg/kubelet/nodestatus).
//
// Package node calls Of each time that a status may be due; Changed reports whether the status must be sent, and Events
// returns its events. Reasons and messages of conditions are the kubelet's. The package is pure: it reads nothing,
// stores nothing and runs no goroutines.
package nodestatus
