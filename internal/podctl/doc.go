// Package podctl is the command line client of both daemons: it reads, asks and prints, and changes nothing.
//
// cmd/podctl calls Run. One command is one file (watch.go, pods.go, sources.go, version.go); beside them stand the pure
// parts: holdings (what a watcher has been told), join and summary (a pod's two halves, and their status in one word), and
// the printers (table, documents).
//
// Everything that comes from a daemon is untrusted: pods are written by whoever may create pods, and podctl runs on an
// administrator's terminal. So text reaches the terminal only through table, documents or note, which escape it.
//
// Goroutines: `podctl pods` asks the two daemons side by side and waits for both. Nothing else is started here.
//
// Exit codes: 0 done (for watch: stopped by Ctrl-C), 1 something failed or is missing from the output, 2 wrong usage.
package podctl
