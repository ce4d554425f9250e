// Package dockerconfig reads docker's config.json, with the rules of the kubelet: which of its logins is for a repository.
//
// It is pure. podexecd uses it for the pulls of images, and podconfigd for the sources of kind oci. It runs no goroutines,
// never runs a credential helper, and puts no credential into an error.
package dockerconfig
