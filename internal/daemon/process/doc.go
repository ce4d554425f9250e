// Package process is what every program of Podstream is as a process: the signals that end it, and the version that it was built as.
//
// Only the mains, podctl and package daemon call it. It runs no goroutine that outlives Main, reads no flags and prints nothing.
package process
