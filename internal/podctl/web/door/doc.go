// Package door decides which HTTP requests reach the handlers of `podctl web`, and bounds them.
//
// A Guard wraps all handlers. Each request has a Class by its path, and passes the checks of the table in checks.go in
// order; the first one that fails answers. Every response has the headers of headers.go. A request's body is read whole,
// within its bound and time, before a handler runs; a response that the client doesn't take ends after a time.
//
// Sessions has the secrets: one-time tickets, which Handover passes to the user in a file, and the tokens of sessions for
// which they are exchanged. Both exist in memory only, as hashes. A Listener bounds the connections: a new one displaces the
// oldest one that hasn't shown a token.
//
// Package web calls it. It starts no goroutines, and never stores a secret in a cookie, a command line or a log.
//
// Each check has a fault in package failpoint that leaves it out, for the tests that show what it is for.
package door
