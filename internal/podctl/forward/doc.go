// Package forward carries connections to local ports to ports of a pod, for `podctl port-forward`.
//
// Parse reads the command line's ports. A Forwarder listens on local addresses, and carries each connection by one call
// of PodExecService.PortForward: its data, the end of each direction, and its error. `podctl port-forward` calls it.
//
// Goroutines: Run has one for each listener and two for each connection, and waits for all of them. Connections are
// bounded; further ones wait in the kernel. It listens on no address that it isn't given.
package forward
