// Package logindtest has a system bus with a logind and a systemd, for tests: a dbus-daemon of its own, on which the test
// answers as these two do. TestShutdownLock and TestShutdownCancelled of test/systemd have the real ones.
//
// A Login does what logind does about inhibitor locks of the mode delay: it announces a shutdown, waits until all locks
// are closed or the longest delay has passed, and goes on. It reads its drop-ins when systemd is asked to send it SIGHUP.
// Only tests import the package. Its goroutines end with the test.
package logindtest
