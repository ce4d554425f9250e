// Package token requests the service account tokens of projected volumes, as the kubelet's token manager does
// (pkg/kubelet/token): each token is bound to its pod, requested once, kept in memory, and replaced well before it
// expires.
//
// Package volume's payload requests tokens at each sync of a pod, and package credential those for credential
// providers; podsetup.Manager drops those of a pod that is gone.
// There are no goroutines, and calls for different pods don't wait for each other. No log line or error contains a
// token.
package token
