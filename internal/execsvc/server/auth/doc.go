// Package auth decides who asks the node's API, and whether he may: authentication by client certificate or bearer token, authorization by
// the API server's word on the resource nodes and its subresources.
//
// Package server calls Check for each request before anything of it is looked at. Certificates are verified here and with each request,
// not in the handshake: one that expires, or whose CA is taken away, ends with it, however old its connection is. The CA file is read
// again when it has changed. Tokens and rights are asked for at the API server, and what it said is remembered for a time; the answers
// that refuse have a memory of their own, so that guessing can't push the others out.
//
// What can't be decided is refused: a stranger's request never passes since the API server doesn't answer. The reviews under way are
// bounded, in all and by peer.
//
// It runs no goroutines, and keeps no token: only the digest of one.
package auth
