// Package doctor looks for what keeps a node from running pods, and says what to do about it.
//
// podctl calls Examine, which asks in turn: the daemons, each by its own services; the container runtime; the machine; the API server and
// what this node shows it. How podexecd was started it reads from the process that listens on podexecd's socket, so that it looks at the same
// files and sockets as podexecd does. It changes nothing, and starts no process. Each check runs in a goroutine of its own that ends with it;
// one that hangs is told of as such, and holds up no other.
package doctor
