// Package manifest turns bytes into pods: it decodes, defaults, validates, and gives each pod its UID and digests.
//
// Every source calls it with what it read and hands the resulting Origins on in a Set. It does no I/O, runs no goroutines,
// keeps nothing between calls, and never fails as a whole: what is wrong with a document becomes a Finding of its Origin.
package manifest
