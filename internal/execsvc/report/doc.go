// Package report tells podconfigd what podexecd has made of its stream: up to which cursor it is applied, and which pods were refused.
//
// The store calls Committed when a cursor is on disk, and the agent calls Changed when another pod is refused or no longer is; neither
// waits. One goroutine, Run, makes one report at a time, of how things are then: what changed meanwhile makes the next one. While
// podconfigd is away it tries again with backoff. A report holds up nothing: podconfigd only shows it.
package report
