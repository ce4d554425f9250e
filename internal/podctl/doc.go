// Package podctl is the command line client of both daemons: it reads, asks and prints, and changes nothing on the node.
//
// cmd/podctl calls Run. One command is one file (watch.go, pods.go, sources.go, objects.go, consumers.go, diff.go, record.go, replay.go,
// version.go); beside them stand the pure parts: join and summary (a pod's two halves, and their status in one word), and
// the printers (table, documents). What a watcher holds, and how it resumes, is client/stream's.
//
// Everything that comes from a daemon is untrusted: pods are written by whoever may create pods, and podctl runs on an
// administrator's terminal. So text reaches the terminal only through table, documents or note, which escape it.
//
// Goroutines: `podctl pods` asks the two daemons side by side and waits for both. `podctl replay` runs a server, and waits for
// its end. `podctl diff -` reads standard input beside its wait for Ctrl-C, which leaves that read behind. Nothing else is
// started here.
//
// Exit codes: 0 done (for watch: stopped by Ctrl-C), 1 something failed or is missing from the output, 2 wrong usage.
// `podctl diff` has those of kubectl diff: 0 nothing would change, 1 something would, 2 that couldn't be told, or a manifest is
// rejected.
package podctl
