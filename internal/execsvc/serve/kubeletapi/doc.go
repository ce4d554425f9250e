// Package kubeletapi is the node's API: what the kubelet serves on port 10250 for the API server, kubectl and
// metrics clients; besides it the read-only port and the health port.
//
// A connection is counted by its peer when it is accepted, before anything is read from it (guard): it is a stranger
// until a request on it has been allowed. The number of strangers is limited, in all and for each peer, and so is
// their time; if all places are taken, the oldest stranger is closed for the new one. Of the known connections,
// those of callers without a certificate have their own limit, and each user a share of it. So a flood costs little
// memory, and blocks no other caller.
//
// A request is handled in this order: its path must be clean, so that it can be read in one way only; package auth
// authenticates and authorizes it; the table of routes selects its handler. No handler receives a path, or a
// request, that was not authorized. Refusals are counted, and logged at a limited rate.
//
// Other packages provide handlers: the streams of containers, statistics and metrics. This package has health, pods,
// the configuration, system logs and profiles. None of them changes a pod. Endpoints that need the container runtime
// are published through a Backend.
//
// Run has two goroutines for each listener: one serves, one ends it; net/http has those of the connections. When Run
// returns, all requests have ended. guard and Server have one lock each; neither is held while the other is taken.
package kubeletapi
