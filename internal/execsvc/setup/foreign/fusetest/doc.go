// Package fusetest mounts file systems whose server doesn't answer, or has died, for tests: a FUSE server of a few lines,
// in the test's process. It can have one file until it hangs. Only tests import it.
package fusetest
