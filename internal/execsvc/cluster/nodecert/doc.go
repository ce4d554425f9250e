// Package nodecert manages the certificates between this node and its API server: Client is the connection to the
// API server, and Serving is the serving certificate of the node's own API.
//
// podexecd calls it. A Client's Config can be used at once: its requests use the current kubeconfig and certificate,
// and fail while there is none. Client.Run requests a first certificate with the bootstrap kubeconfig, writes the
// kubeconfig, and renews the certificate before it expires. podconfigd uses the same kubeconfig; so if the
// kubeconfig names another certificate, it is changed to name the renewed one. Serving.Run does the same for a
// serving certificate that the API server signs. The caller starts each Run as a goroutine; while Serving waits for
// a certificate it runs one more, which it ends. Files are checked when they are used, and every ten seconds.
//
// The key is on disk before a certificate is requested, and the request's name is derived from the key: after a kill
// the request is found again and no second one is made.
//
// The package never blocks its callers: a missing certificate is an error of the request or handshake that needs it.
package nodecert
