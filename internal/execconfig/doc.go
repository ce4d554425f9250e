// Package execconfig computes podexecd's Settings from its flags and the kubelet's configuration.
//
// podexecd calls it at start. A flag takes precedence over the corresponding field of the file. A field for podexecd
// that this version doesn't support is an error if a node that ignores it is less safe; the others are listed in
// Settings.Unsupported, and those for podconfigd in Settings.Podconfigd. It is pure, and runs no goroutines.
package execconfig
