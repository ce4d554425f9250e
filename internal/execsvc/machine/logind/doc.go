// Package logind is a client of systemd-logind: it delays a shutdown of the machine by an inhibitor lock, and reports that
// a shutdown is prepared (https://systemd.io/INHIBITOR_LOCKS).
//
// Package shutdown calls it. Each call is bounded in time: a bus, or a logind, that doesn't answer is an error. A Conn is
// ready for use when Dial returns. It ends when its connection is lost, and when logind was restarted; the caller dials
// again then. Its goroutines are those of the D-Bus library, and end after Close.
//
// Any client of the bus can send a signal to any other one. So a signal only has the caller ask logind, and logind's own
// answer counts. As a client could also send file descriptors with its signals, or messages of many megabytes, the connection
// that is kept accepts neither; the one that fetches a lock is closed at once.
//
// The package writes one file, logind's drop-in with the longest delay, and only when it is asked to.
package logind
