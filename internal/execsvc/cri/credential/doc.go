// Package credential provides the credentials for image pulls: the pull secrets of pods, the node's docker config
// files, and credential provider plugins.
//
// Package image calls a Keyring before each pull. A source that fails is reported in an event or the log, and the pull
// is tried with the others. The rules are the kubelet's (pkg/credentialprovider): which credentials match an image,
// their order, the configuration and the protocol of the plugins. The files are read at each Lookup, so a change needs
// no restart; plugins' answers are cached in memory for as long as they say. The package runs no goroutines beyond a
// call, and puts no credentials in a log line, an event or an error.
package credential
