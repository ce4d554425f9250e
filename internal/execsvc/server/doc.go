// Package server is the node's API: what the kubelet serves on port 10250 for the API server, kubectl behind it, and whoever reads a node's
// metrics; besides it the read-only port and the port that tells how podexecd is.
//
// A connection is counted by its peer when it is accepted, before anything is read from it (guard): it is a stranger's until a request on
// it has been let in. Strangers are few, in all and of one peer, and have little time; when all their places are taken, the oldest one's
// goes to the newcomer. So a flood costs little memory, and keeps nobody else out.
//
// A request passes, in this order: its path must be clean, so that there is one way only to read it; package auth tells who asks and
// whether he may; then the table of routes has a handler for it or not. No handler sees a path, or a request, that was not decided on.
// What is refused is counted, and logged at a bounded rate.
//
// Other packages bring handlers: the streams of containers, statistics and metrics. Here are health, pods, the configuration, the system's
// logs and profiles. Nothing of it changes a pod.
//
// Run runs a goroutine for each listener and one that ends it, net/http those of the connections; when it returns, all requests have ended.
// There is one lock in guard and one in Server; none is held while another is taken.
package server
