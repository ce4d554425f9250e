// Package apipoints has podexecd die before and after each of its requests to the API server by which others learn of the node and its pods.
//
// podexecd puts it around the transport of its clients where it makes them. Only in builds with the tag failpoints is there anything around
// it (see package failpoint). It runs no goroutines, and changes no request.
package apipoints
