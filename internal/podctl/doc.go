// Package podctl is the command line client of both daemons: it reads, asks and prints, and changes nothing on the node.
//
// cmd/podctl calls Run. One command is one file (watch.go, pods.go with podswatch.go, describe.go, events.go, logs.go, exec.go,
// sources.go, objects.go, consumers.go, diff.go, record.go, replay.go, version.go); beside them stand the pure parts: join, summary and
// waits (a pod's two halves, their status in one word, and in sentences), and the printers (table, documents, description). What a watcher
// holds, and how it resumes, is client/stream's.
//
// Everything that comes from a daemon is untrusted: pods are written by whoever may create pods, and podctl runs on an
// administrator's terminal. So text reaches the terminal only through table, documents, description or note, which escape it; but for
// logs and exec, which pass on what a container writes byte for byte, as kubectl does.
//
// Goroutines: `podctl pods` and `podctl describe` ask the two daemons side by side and wait for both. `podctl replay` runs a server, and
// waits for its end. `podctl diff -` and `podctl exec -i` read standard input beside what they wait for, which leaves that read behind;
// `podctl exec -t` watches the terminal's size until its end. Nothing else is started here.
//
// Exit codes: 0 done (for watch: stopped by Ctrl-C), 1 something failed or is missing from the output, 2 wrong usage.
// `podctl diff` has those of kubectl diff: 0 nothing would change, 1 something would, 2 that couldn't be told, or a manifest is
// rejected. `podctl exec` has the command's.
package podctl
