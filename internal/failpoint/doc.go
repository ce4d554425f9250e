// Package failpoint plants faults and deaths, so that tests can show that somebody notices the one and nobody the other.
//
// A fault (Name) breaks a promise on purpose: of podconfig.v1, of a relay, or of what podexecd is for. The product asks Active at the
// places where the faults are. A point (Point) is a place to die at: between two steps of which a crash may do only the first. The
// product calls Reached there; package cripoints does it around podexecd's calls to the runtime, package apipoints around its requests to
// the API server.
//
// In a build without the tag failpoints, that is every build but that of those tests, Active is the constant false and Reached does
// nothing, and the compiler leaves nothing of them. With the tag a test switches a fault on with Enable, a process gets its faults from
// the environment, PODSTREAM_FAILPOINTS=NAME,NAME, and dies by SIGKILL where it is told to: PODSTREAM_DIE_AT=POINT, or POINT:N for
// the Nth time that it gets there.
//
// The package runs no goroutines, and decides nothing about what a fault does: that stands where Active is asked.
package failpoint
