// Command sample is the only program in the container images of Podstream's tests. As podstream-pause it holds a pod's
// namespaces. As podstream-sample it behaves as each container that a test needs.
//
// It is built without cgo, so that it runs in an image that contains only this file. It may be process 1 of its
// container, for which the kernel ignores signals without a handler. So each subcommand that runs on handles SIGTERM
// and SIGINT. It is used only in tests and trials.
package main
