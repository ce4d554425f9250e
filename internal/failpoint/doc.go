// Package failpoint adds faults and crash points for tests: a fault must be detected by the tests, a crash must have
// no effect on pods.
//
// A fault (Name) breaks a guarantee on purpose: of podconfig.v1, of a relay, or of podexecd. The product calls Active
// at the places of the faults, or Hold where one hangs. A point (Point) is a place for a crash: between two steps of which only the first may
// be done. The product calls Reached there; package cripoints does it around podexecd's calls to the runtime, package
// apipoints around its requests to the API server.
//
// In a build without the tag failpoints, that is every build except for those tests, Active is the constant false and
// Reached does nothing, and the compiler removes both. With the tag, a test switches a fault on with Enable. A
// process reads its faults from the environment, PODSTREAM_FAILPOINTS=NAME,NAME, and its crash:
// PODSTREAM_DIE_AT=POINT, or POINT:N for the Nth time that it reaches the point, ends it by SIGKILL.
//
// The package runs no goroutines. The effect of a fault is defined where Active is called.
package failpoint
