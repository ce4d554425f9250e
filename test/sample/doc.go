// Command sample is the one program inside the container images of Podstream's tests: as podstream-pause it holds a
// pod's namespaces, as podstream-sample it plays every kind of container that a test needs.
//
// It is built without cgo, so that an image of this file alone runs. It may be process 1 of its container, for which
// the kernel ignores signals without a handler: so each subcommand that stays handles SIGTERM and SIGINT by itself.
// It is never run outside tests and trials.
package main
