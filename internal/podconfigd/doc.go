// Package podconfigd is podconfigd as a program: its flags, and the wiring of sources, hub and service.
//
// The main of podconfigd calls it, and so may another main that adds a source of its own, an Extra. It runs one goroutine for
// each source and server, all of which have ended when the Program has. It decides nothing about pods: that is the merge's.
package podconfigd
