// Package podexecd is podexecd as a program: its flags and configuration, and the wiring of the stream, the agent, the runtime and the
// services.
//
// The main of podexecd calls it. It decides nothing about pods: that is the agent's. Its goroutines, one for each server and each part of the
// agent, have ended when the Program has; the store's is the last of them, so that what is noted while the others end is on disk. The pods go
// on running.
package podexecd
