// Package fault has the faults of the test driver of package csidriver: what a call does instead of, before or after its work.
//
// Table has the faults of one driver. Tests that run the driver in their process use it directly. Tests of the driver's program
// use a Client, which has the same methods, on its control socket (HTTP). Faults are in memory: a driver that is started again has
// only those of its options, so a fault that ends the process acts once.
//
// The package starts no goroutines.
package fault
