// Package objects holds the ConfigMaps and Secrets that the node's pods refer to, as podconfigd tells of them.
//
// Run follows podconfigd's stream of objects; packages credential and volume read single objects; the agent takes what has changed and
// wakes the pods that use it. Objects are kept in memory only: after a restart podconfigd tells them anew. The package runs no goroutines
// beside Run's caller, waits for nothing when it is asked, and puts no content of an object in a log line or an error.
package objects
