// Package contexts reads podctl.yaml, the file with the endpoints and credentials that podctl can choose from, and changes which
// one it uses.
//
// The file decides where commands of an operator go, so it must be of the caller or root, no group or other user may write to it,
// and not any user to its directory: that is checked on the open file. It names files of certificates and keys, and has no keys itself. No part of it is a program to run.
// Package podctl calls it, and connects. It starts no goroutines.
package contexts
