// Package apiclient is podexecd's client of the API server. It has the resources that a node uses, with client-go's
// requests and encodings. client-go's own clientset links all of Kubernetes' API groups: 13 MB of a binary, most of
// which become resident.
//
// podexecd makes a Client for each rate limit, and the packages beside this one use it. The package runs no goroutines
// and never retries: the callers do.
package apiclient
