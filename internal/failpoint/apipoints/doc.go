// Package apipoints kills podexecd before and after each request to the API server that publishes the node or its
// pods.
//
// podexecd wraps the transport of its API clients with it. It has an effect only in builds with the tag failpoints
// (see package failpoint). It runs no goroutines, and changes no request.
package apipoints
