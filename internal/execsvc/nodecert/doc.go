// Package nodecert is by which certificates this node and its API server know each other: the Client is how the API server is reached, and
// Serving is what the node's own API presents.
//
// Podexecd calls it. A Client's Config is good at once: its requests go by what the kubeconfig says now, with the certificate that is current
// now, and fail while there is none. Client.Run asks for a first certificate by the bootstrap kubeconfig, writes the kubeconfig then, and
// renews the certificate before it expires. Podconfigd goes by the same kubeconfig, and so a kubeconfig that holds another certificate is made to
// name the renewed one. Serving.Run does the same for a certificate of the node's API that the API server shall sign. Each Run is a goroutine of
// its caller's, and while Serving waits for a certificate there is another one, which it ends; files are looked at when they are used, and every ten
// seconds.
//
// A certificate is asked for by a key that is on disk before, under a name that follows from the key: who is killed in between finds his
// request again and makes no second one.
//
// It never holds anybody up: what isn't there yet is an error of the request or the handshake that needs it.
package nodecert
