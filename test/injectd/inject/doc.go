// Package inject lets a test decide what podconfigd's sources read: whole sets of pods, API pods with status and
// deletion timestamps among them, held origins, and sources that can't be read.
//
// A Source runs within podconfigd (the program injectd) and takes sets from a Unix socket; a Client, in the test,
// sends them. Each line is one JSON object. The request is either a manifest.Set, the full set of one source:
//
//	{"source":"api","error":"","origins":[{"name":"default/web","held":false,"pods":[{"metadata":{…},"spec":{…},"status":{…}}]}]}
//
// or which of the injected sources are configured from now on, in order of priority; podconfigd has no others then:
//
//	{"configure":["api","file:a"]}
//
// The answer comes once the set has been merged, or the sources configured, and that is published; it tells how far
// podconfigd is. Or it tells why the request can't be understood, and then nothing has been applied:
//
//	{"instance":"6fb1…","revision":7}
//	{"error":"source \"apis\" isn't injected: these are [api file:a]"}
//
// Pods are taken as they are, as those of an API server would be: they are not defaulted and not validated, and their
// size is not bounded. An origin whose JSON didn't change since its source's last set stays the same
// *manifest.Origin, as with every real source.
//
// # Goroutines
//
// A Source runs one for each connection; all have ended when Run returns. Sets of one source are applied one after
// another, under that source's lock, and those of different sources at the same time. A Client has none.
package inject
