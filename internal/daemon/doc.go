// Package daemon has the common parts of podconfigd and podexecd: the main function, shared flags, the log, the lock
// on the state directory, the ID that is stored there, the listeners, and the metrics page.
//
// The daemons' packages call it. ServeMetrics, and the goroutines of Base.Serve, run until their context ends;
// nothing else here starts goroutines. Signals and the version are in package process, which podctl shares.
package daemon
