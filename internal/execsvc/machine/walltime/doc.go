// Package walltime converts times of the wall clock (from the container runtime, a file, the store or the API server)
// to readings of this process's clock. The wall clock may be set at any moment; a wait that is measured from a reading
// isn't affected.
//
// The package runs no goroutines and makes no calls.
package walltime
