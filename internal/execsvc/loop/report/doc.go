// Package report reports to podconfigd the cursor up to which podexecd has applied the stream, and the pods that were
// rejected.
//
// The store calls Committed when a cursor is on disk, and the agent calls Changed when the rejected pods have changed;
// neither waits. One goroutine, Run, makes one report at a time, with the state at that moment. A change during a
// report causes the next one. If podconfigd can't be reached, Run retries with backoff. Reports delay nothing:
// podconfigd only shows them.
package report
