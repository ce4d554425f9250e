// Package passthrough relays TLS connections by their server name (SNI) to fixed addresses, without a key: the client
// and the target have one TLS session end to end, so the target sees the client's own certificate.
//
// It owns its accepted and dialed connections. Serve has one goroutine for each connection, and a second one while
// bytes are copied; all have ended when Serve returns. Connections are bounded in all, by client address, and while
// they haven't sent a complete ClientHello (places). A server name that isn't configured, none, or one with Encrypted
// Client Hello is refused: the connection is closed without an answer.
//
// It never ends TLS, never resolves a name that a client sent, never writes an alert, and has no bound of idle time,
// as a watch or an exec may be quiet for longer than any bound. TCP keepalive and TCP_USER_TIMEOUT end connections of
// peers that are dead or don't read, and a time limit those of which one side has sent its last byte.
package passthrough
