// Package token gets the tokens of service accounts that pods have in projected volumes, as the kubelet's token manager does
// (pkg/kubelet/token): each is bound to its pod, asked for once, kept in memory, and replaced well before it runs out.
//
// Package volume's payload asks for tokens at each sync of a pod; World forgets those of a pod that is gone. There are no goroutines, and
// calls for different pods don't wait for each other. A token is in no log line and no error.
package token
