//go:build !race

package rig

// Raced is set in a test program that has the race detector. The daemons then have it too.
const Raced = false
