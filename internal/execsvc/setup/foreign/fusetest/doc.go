// Package fusetest mounts file systems whose server doesn't answer, or has died, for tests: a FUSE server of a few lines,
// in the test's process. Only tests import it.
package fusetest
