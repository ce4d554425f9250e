// Package failpoint plants faults: each breaks one promise of podconfig.v1 on purpose, or what a relay is for, so that the tests can
// show that the checker of that notices.
//
// The product asks Active at the places where the faults are. In a build without the tag failpoints, that is every build but
// that of those tests, Active is the constant false, and the compiler leaves nothing of it. With the tag a test switches a
// fault on with Enable, and a process gets its faults from the environment: PODSTREAM_FAILPOINTS=NAME,NAME.
//
// The package runs no goroutines, and decides nothing about what a fault does: that stands where Active is asked.
package failpoint
