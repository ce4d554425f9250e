// Package profile writes profiles of this process in the format of pprof, under the names of net/http/pprof.
//
// podconfigd's service calls it for operators. One profile is written at a time, and each is bounded in time and bytes.
// It runs no goroutine of its own, and never serves anything itself.
package profile
