// Package process has the common parts of all programs of Podstream: signal handling, the version, and
// the process's own limits.
//
// The mains, podctl and package daemon call it. It runs no goroutine that outlives Main, reads no flags and prints
// nothing.
package process
