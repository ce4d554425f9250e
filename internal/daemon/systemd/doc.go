// Package systemd speaks systemd's protocols for a daemon that is a unit: it reports readiness, status, progress and
// the end (sd_notify(3)), and takes over the listening sockets of a socket unit (sd_listen_fds(3)).
//
// The daemons call it at their start. New and Sockets remove systemd's variables from the environment, so that no
// child process has them. In a process that systemd did not start, both do nothing.
//
// Notifier.Run is the only goroutine, and the only sender: a systemd that doesn't read delays no other part of the
// daemon. The watchdog has no timer of its own truth: each message to it follows an answer of Config.Alive, which the
// part of the daemon that must not hang gives itself.
package systemd
