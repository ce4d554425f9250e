// Package mergesvc is the heart of podconfigd: what the sources read goes in, an ordered stream of revisions comes out.
//
// Data flows one way: a source hands its set to the Hub; the merge (package merge) makes a revision of it; the history
// (package history) keeps the revision; each consumer's stream (package service, with the help of package catchup) reads the
// history. The values that flow are in package revision. The Hub's lock covers merge and append, and nothing is sent under
// it. The Hub runs no goroutines.
//
// Which sources there are comes the same way: whoever reads the configuration tells the Hub, and consumers learn of it by a revision,
// in order with all else.
package mergesvc
