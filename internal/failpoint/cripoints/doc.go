// Package cripoints kills podexecd before and after each call to the container runtime that changes something.
//
// podexecd wraps the runtime's clients with it. It has an effect only in builds with the tag failpoints (see package
// failpoint). It runs no goroutines, and changes no call.
package cripoints
