// Package objects holds the ConfigMaps and Secrets that the node's pods refer to, as podconfigd sends them.
//
// Run follows podconfigd's stream of objects. Packages credential and volume read single objects. The agent takes the
// changed ones and wakes the pods that use them. Objects are kept in memory only: after a restart podconfigd sends them
// again. The package runs no goroutines besides Run's caller. Reads never wait, and no log line or error has the
// content of an object.
package objects
