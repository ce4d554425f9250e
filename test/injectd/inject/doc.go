// Package inject lets a test decide what podconfigd's sources read: full sets of pods (also pods of an API
// server, with status and deletion timestamps), held origins, and sources that can't be read.
//
// A Source runs within podconfigd (the program injectd) and takes sets from a Unix socket; a Client, in the test,
// sends them. Each line is one JSON object. The request is either a manifest.Set, the full set of one source:
//
//	{"source":"api","error":"","origins":[{"name":"default/web","held":false,"pods":[{"metadata":{…},"spec":{…},"status":{…}}]}]}
//
// or the injected sources that are configured from now on, in order of priority; podconfigd then has no others:
//
//	{"configure":["api","file:a"]}
//
// The answer comes once the set has been merged, or the sources configured, and the result is published. It has
// podconfigd's position. If the request is invalid, nothing has been applied, and the answer has the reason:
//
//	{"instance":"6fb1…","revision":7}
//	{"error":"source \"apis\" isn't injected: these are [api file:a]"}
//
// Pods are not changed: they are neither defaulted nor validated, and their size is not limited, as with the
// pods of an API server. An origin whose JSON didn't change since its source's last set stays the same
// *manifest.Origin, as with every real source.
//
// # Goroutines
//
// A Source runs one for each connection; all have ended when Run returns. The sets of one source are applied
// one after another, under that source's lock. Sets of different sources are applied in parallel. A Client runs
// none.
package inject
