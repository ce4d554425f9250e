// Package podconfigd is podconfigd as a program: its flags and configuration, the wiring of sources, hubs and service, and the way
// from one configuration to the next while it runs.
//
// The main of podconfigd calls it, and so may another main that adds a source of its own, an Extra. It decides nothing about pods, that
// is the merge's, nor what a configuration means, that is sourceconfig's.
//
// Its goroutines are one for each server and hub, one for each source and one for that source's objects, one that watches the
// configuration files, and the reloader's, which alone starts and stops sources. All of them have ended when the Program has.
//
// The files of --config and --config-dir, and those that they and the flags name, are looked at when inotify tells of a change, and in any
// case every 20 s. A change is used once two looks 500 ms apart have found the same; on SIGHUP everything is read at once. If what the
// configuration says then is no good, in any point, all stays as it is, and what may come right by itself is tried again at each look.
// Flags don't change, and neither does what only flags can say.
//
// Each source fails on its own: one whose kubeconfig or certificate is missing, or is no good, is configured, shows why it isn't read,
// and is tried again at each look. Its former reader, if there is one, goes on. A source that doesn't end within 10 s is left behind, and
// not heard any more.
//
// Sources that went while none came lose their pods at once. If others came, or read from elsewhere now, those that went stay
// configured, behind all others and without a reader, until all of these have given a good set, for 30 s at most: what only got another
// name hands its pods over in one revision.
package podconfigd
