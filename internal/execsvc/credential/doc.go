// Package credential knows what images are pulled with: the pull secrets of pods, the node's docker config files, and credential provider
// plugins.
//
// Package image asks a Keyring before each pull. What can't be had is told in an event or the log, and left out: the pull is tried with
// the rest. The rules are the kubelet's (pkg/credentialprovider): which credentials match an image, their order, the configuration and
// the protocol of the plugins. The files are read at each Lookup, so that what is put there needs no restart; what plugins say is kept
// in memory for as long as they say. The package runs no goroutines beyond a call, and puts no credentials in a log line, an event or an
// error.
package credential
