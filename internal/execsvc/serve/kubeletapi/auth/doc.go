// Package auth authenticates and authorizes the callers of the node's API: by client certificate or bearer token,
// and by the API server's access reviews of the resource nodes and its subresources.
//
// Package kubeletapi calls Check for each request before anything else. Certificates are verified here with each
// request, not in the handshake: one that expires, or whose CA is removed, is refused at once, however old its
// connection is. The CA file is read again when it has changed. The API server reviews tokens and permissions; its
// answers are cached for some time. Negative answers have a cache of their own, so that guessing can't push the
// others out.
//
// An undecided request is refused: none passes because the API server doesn't answer. The reviews under way are
// limited in three pools, so that unauthenticated tokens block neither the API server's certificate nor
// authenticated users; within a pool each address or user has a share.
//
// It runs no goroutines, and keeps no tokens: only their digests.
package auth
