// Package execconfig decides how podexecd works: flags and the kubelet's configuration become its Settings.
//
// Podexecd calls it at start. A flag wins over the field of the file that means the same. Fields that are podexecd's, and that this version
// doesn't act upon, are named in Settings.Unsupported, those that are podconfigd's in Settings.Podconfigd. It is pure, and runs no goroutines.
package execconfig
