// Package stream is the streaming half of the node's API, as the kubelet has it on port 10250: logs of containers, commands in them, their
// first process's streams, connections to ports of pods, and checkpoints.
//
// It owns the requests to /containerLogs/, /exec/, /attach/, /run/, /portForward/ and /checkpoint/, to which package server passes what has
// been authenticated and authorized; nobody is kept out here. What a caller says to a command, a container or a port goes to the streaming
// server of the container runtime unread (pass): the runtime speaks SPDY and the older WebSocket protocols itself. Two that it doesn't
// speak are translated: the fifth version of the remote command protocol (channels), and SPDY within a WebSocket (tunnel).
//
// A request is a goroutine of the HTTP server, and has one to three more that end with it: one for each direction, and one that waits for
// the end of the pod. Close ends them all and waits. A stream holds about 40 KiB of what is under way, however slow its caller reads. How many
// there are is bounded, in all and for each pod; who comes then is answered 429.
//
// What it never does: connect to anything but the runtime's streaming server on this machine's loopback, tell that server who the caller
// is, or change a pod.
package stream
