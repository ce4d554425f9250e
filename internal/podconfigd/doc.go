// Package podconfigd is the program podconfigd: its flags and configuration, the wiring of sources, hubs and service,
// and the change from one configuration to the next.
//
// Command podconfigd calls it; another main may call it with further sources, Extras. The merge decides about pods,
// and package sourceconfig what a configuration means.
//
// Its goroutines are one for each server and hub, one for each source and one for that source's objects, one that
// watches the configuration files, and the reloader's, which alone starts and stops sources. All have ended when the
// Program has.
//
// The files of --config and --config-dir, and those that they and the flags name, are checked when inotify reports a
// change, and in any case every 20 s. A change is used once two checks 500 ms apart have read the same; on SIGHUP
// everything is read at once. If the new configuration has any error, nothing changes, and errors that may go away by
// themselves are retried at each check. Flags don't change, and neither does what only flags can set.
//
// Each source fails on its own: one whose kubeconfig or certificate is missing or invalid is configured, shows why it
// isn't read, and is retried at each check. Its previous reader, if there is one, goes on. A source that doesn't end
// within 10 s is abandoned, and its sets are ignored.
//
// Sources that are removed while none is added lose their pods at once. If others are added, or read from elsewhere
// now, the removed ones stay configured, behind all others and without a reader, until all of these have given a good
// set, for 30 s at most: a renamed source passes its pods on in one revision.
package podconfigd
