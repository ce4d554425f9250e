// Package sources defines what a source of pods is. Each kind of source is a package beneath it: file, http,
// oci, apiserver and relay.
//
// It owns nothing and runs nothing: podconfigd starts the sources, and passes their sets to the Hub.
package sources
