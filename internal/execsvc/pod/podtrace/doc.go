// Package podtrace has the traces of the pods' changes.
//
// podconfigd begins a trace at each change, and the stream carries its context to podexecd. The syncs of a pod are spans of
// the trace of its last change, until a sync has nothing left to do, and for an hour at most. Calls to the container runtime
// are spans below them. Package loop/syncloop hands over the changes, and the Agent starts the spans. The package runs no
// goroutines; it never waits for the collector.
package podtrace
