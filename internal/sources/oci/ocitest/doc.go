// Package ocitest is, for tests, a registry on loopback that may misbehave, and a key that signs artifacts as cosign does.
//
// It owns the registry's HTTP server, whose goroutines end with the test.
package ocitest
