// Package doctor finds problems that keep a node from running pods, and gives advice on each.
//
// podctl calls Examine, which checks the daemons, each by its own services; the container runtime; the processes of both
// and their units; the machine; and the API server's answers to this node. It reads podexecd's flags from the process
// that listens on podexecd's socket, so that it checks the same files and sockets as podexecd uses. It changes nothing,
// and starts no process, except for the plugin that podexecd's kubeconfig may name for its credentials.
// Each check runs in its own goroutine; a check that hangs is reported as such, and doesn't delay the others.
package doctor
