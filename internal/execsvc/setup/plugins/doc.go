// Package plugins is the plugin manager: it finds the registration sockets of CSI drivers and other node plugins, asks each one what
// it is (pluginregistration.Registration, version 1), and hands it to the Kind of its type.
//
// It owns the directory <kubelet-dir>/plugins_registry: no other package reads it. The Agent runs the Manager; package csi is a Kind.
//
// The order of events for one socket:
//
//	file found ─▶ GetInfo ─▶ answer checked ─▶ Kind.Admit ─▶ Kind.Open ─▶ Instance.Use ─▶ NotifyRegistrationStatus
//	file gone  ─▶ Use of an instance on standby, or Instance.Drop ─▶ Instance.Close
//
// A plugin is dropped only if its file is gone, or another file has taken its place. A connection that breaks, a directory that
// can't be listed, and a file that isn't in an incomplete listing drop nothing.
//
// # Trust
//
// Each process that can write to the registry can be a hostile one, with root's rights in its container. Sockets and endpoints must
// be root's, lie on the mount of their directory, and no link may lead out of it. The Manager connects to the file that it has checked,
// not to a path. Names, lists, messages, times, and the numbers of sockets, directories and files are bounded. What a plugin
// has sent is quoted in logs, and each socket has a number of lines.
//
// # Goroutines
//
// Run lists the registry in its caller's goroutine, and starts one goroutine for each socket, maxSockets at most, in which all calls
// of the plugin are made: a plugin that hangs delays no other. Run returns after all of them have ended. fsnotify has one goroutine.
//
// Manager.mu guards the state. Use and Drop of an Instance are called with it held, so they must not block or call the Manager; no
// other code of a Kind is called with it held, but for Admit.
//
// The package never removes a socket, and never starts or stops a plugin.
package plugins
