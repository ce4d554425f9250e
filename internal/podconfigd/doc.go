// Package podconfigd is podconfigd as a program: its flags and configuration, the wiring of sources, hubs and service, and the way
// from one configuration to the next while it runs.
//
// The main of podconfigd calls it, and so may another main that adds a source of its own, an Extra. It decides nothing about pods, that
// is the merge's, nor what a configuration means, that is sourceconfig's.
//
// Its goroutines are one for each server and hub, one for each source and one for that source's objects, one that watches the
// configuration files, and the reloader's, which alone starts and stops sources. All of them have ended when the Program has.
//
// The files of --config and --config-dir are read again on SIGHUP, 500 ms after the last change in them, and in any case every 20 s. If
// what they say then is no good, in any point, all stays as it is. Flags don't change, and neither does what only flags can say.
package podconfigd
