// Package redact decides how much of a pod a caller may see. An inspector sees the pod without the values that may
// hold secrets.
//
// A caller's role determines its Audience. Only an Audience makes the types Pod and Status, and the encoders of both
// daemons take nothing else: code that sends a pod without an Audience doesn't compile. The zero Audience is an
// inspector's.
//
// One table decides for each field whether it is shown (fields.go). A field that isn't in the table, of a newer
// Kubernetes for example, is left out, and a test fails until the table decides on it.
//
// The package is pure: it runs no goroutines, does no I/O and never changes its input.
package redact
