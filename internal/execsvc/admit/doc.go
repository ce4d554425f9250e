// Package admit tells what of a pod this version of podexecd can't do, before anything is done for it.
//
// A pod is refused if it asks for something whose silent loss would change what it means or how safe it is; what merely isn't
// acted upon is named, so that it can be logged once. Check is a pure function, called by the pod's worker.
package admit
