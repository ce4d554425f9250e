// Package execconfig computes podexecd's Settings from its flags and the kubelet's configuration.
//
// podexecd calls it at start. A flag takes precedence over the corresponding field of the file. Fields for podexecd
// that this version doesn't support are listed in Settings.Unsupported, and those for podconfigd in
// Settings.Podconfigd. It is pure, and runs no goroutines.
package execconfig
