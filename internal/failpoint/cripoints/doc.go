// Package cripoints has podexecd die before and after each of its calls to the container runtime that change something.
//
// podexecd puts it around the runtime's clients where it makes them. Only in builds with the tag failpoints is there anything around them
// (see package failpoint). It runs no goroutines, and changes no call.
package cripoints
