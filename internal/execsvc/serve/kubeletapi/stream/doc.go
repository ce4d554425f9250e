// Package stream is the streaming half of the node's API, as the kubelet has it on port 10250: logs of containers, commands in them, their
// first process's streams, connections to ports of pods, and checkpoints.
//
// It handles the requests to /containerLogs/, /exec/, /attach/, /run/, /portForward/ and /checkpoint/, after package
// kubeletapi has authenticated and authorized them. Data for a command, a container or a port goes unread to the
// streaming server of the container runtime (pass), which supports SPDY and the older WebSocket protocols. Two
// protocols that it doesn't support are translated: version 5 of the remote command protocol (channels), and SPDY
// within a WebSocket (tunnel).
//
// A request is a goroutine of the HTTP server, and has one to three more that end with it: one for each direction,
// and one that waits for the end of the pod. Close ends them all and waits. A stream buffers about 40 KiB, however
// slow its caller reads. Their number is limited, in all and by shares of pods, namespaces and users without a
// certificate; further requests are answered with 429.
//
// It connects only to the runtime's streaming server on this machine's loopback, never sends the caller's identity
// to that server, and never changes a pod.
package stream
