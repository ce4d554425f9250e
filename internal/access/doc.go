// Package access knows who is calling and what they may see: on a Unix socket by the word of the kernel, over TCP by the client
// certificate of mutual TLS. Root and the daemon's own user are operators, and the uids of Config.AllowUIDs consumers; the access file
// gives roles to further uids and to certificates. Whoever has no role is told so, and gets nothing but a health check.
//
// An access file, of which the first entry that matches decides:
//
//	clients:
//	- {commonName: podexecd, organization: nodes, role: consumer, nodes: [node-1]}
//	- {uri: "spiffe://example/dashboard", role: inspector, sources: [file, "file:extra"]}
//	- {uid: 1000, role: inspector}
//	- {uid: 1001, role: operator}
//
// grpcserver calls it: at the accept of each connection and for its handshake, for each call, and once a second to read the files anew and to ask
// which connections still stand. Services take the Caller from their context.
//
// It runs no goroutine, logs no key, and never trades good files for bad ones: what can't be used is logged, and the last good
// version stays.
package access
