// Package mergesvc merges the pods of all sources into one ordered stream of revisions.
//
// Data flows one way. A source hands its set to Intake.Apply, which gives the pods to Hub.Apply and the ConfigMaps and
// Secrets to package objects, in the order that consumers need. Package merge makes a revision of the pods. Package store
// commits the revision to disk, and package history publishes it. Each consumer's stream (package service, with
// package catchup) reads the history. Package revision has the values that flow. Hub.Configure changes which sources
// there are: that makes a revision as well, in order with all others. Package objects follows the history beside the
// Hub: its revisions are ConfigMaps and Secrets.
//
// # Locks
//
// A Hub has two locks, taken in this order:
//
//   - publishing covers store and history. Its holder takes the whole queue, commits it with one fsync, and appends
//     it to the history.
//   - mu covers the merge and the queue of merged revisions. It is never held during I/O.
//
// So other sources merge while one waits for the disk, and the next holder of publishing commits all that they
// queued. The history has a lock of its own, which comes last. Nothing is sent to a consumer, and no line for a
// changed pod is written, under any of them. logMu guards only the conflicts that were logged.
// Alive, for the watchdog, reports that one holder keeps one of the first two, unless it waits for the disk.
//
// Run, which checks the store and closes it at the end, is the only method that lasts; the Hub starts no goroutines.
package mergesvc
