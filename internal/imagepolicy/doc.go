// Package imagepolicy is the kubelet's imagePullCredentialsVerificationPolicy: which images that a node has may be used
// without the credentials for them.
//
// Package execconfig checks the setting with it, and package imageaccess decides with it. The package is pure.
package imagepolicy
