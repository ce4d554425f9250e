// Package access authenticates callers and determines their rights: on a Unix socket by the kernel's SO_PEERCRED,
// over TCP by the client certificate of mutual TLS. Root is an operator, and so is the daemon's own user, unless it
// calls from another mount namespace; the uids of Config.AllowUIDs are consumers. The access file gives roles to
// further uids and to certificates. A caller without a role may only check the daemon's health.
//
// What a caller may write to podconfigd's source "applied" is apart from the order of the roles: root and the daemon's own
// user may write everything, unless an entry matches them, and the role deployer allows what its entry says. No other role
// implies it, and it implies no other one: a caller that is only a deployer sees the pods that it has applied.
//
// A CA of nodes, beside that of the clients, makes the nodes of a cluster consumers: its certificates have a role only by
// an entry {systemNodes: true}, and only for the node of their name. The clients' CA never makes a node.
//
// An access file, of which the first entry that matches decides:
//
//	clients:
//	- {commonName: podexecd, organization: nodes, role: consumer, nodes: [node-1]}
//	- {uri: "spiffe://example/dashboard", role: inspector, sources: [file, "file:extra"]}
//	- {systemNodes: true, role: consumer}
//	- {uid: 1000, role: inspector}
//	- {uid: 1001, role: operator}
//	- {uid: 1002, role: deployer, namespaces: [shop], podSecurity: restricted, maxPods: 5, maxBytes: 64Ki}
//	- {uid: 1003, roles: [inspector, deployer], namespaces: ["*"]}
//
// grpcserver calls it: when it accepts a connection and for its handshake, for each call, and once a second to read
// the files again and to recheck the connections. Services read the Caller from their context.
//
// It runs no goroutine, logs no key, and never replaces good files by bad ones: an unusable file is logged, and the
// last good version stays.
package access
