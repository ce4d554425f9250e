// Package fakeapi is an API server of pods only, for tests: create, get, patches of the status, deletion with grace
// and preconditions, and resource versions. It runs no goroutines. Its client calls it without a network, so it
// works with a fake clock.
package fakeapi
