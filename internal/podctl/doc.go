// Package podctl is the command line client of both daemons. It changes nothing on the node itself,
// except that edit has the user's editor change a manifest file.
//
// cmd/podctl calls Run. Each command has its own file (watch.go, pods.go with podswatch.go, describe.go, events.go,
// logs.go, exec.go, restart.go, wait.go with waitfor.go, sources.go, objects.go, consumers.go, diff.go, doctor.go, migrate.go
// with migrateprint.go, record.go, replay.go, version.go); completion.go completes names in a shell. statusfollow.go is what
// restart and wait follow pods with. Package podsummary joins and summarizes the two halves of a pod, and package render
// prints tables and documents. client/stream keeps a watcher's state and resumes its stream. Packages doctor and migration
// read the node for the commands of these names. images.go with imagespull.go, pullbar.go and imagesprune.go, and top.go
// with topsample.go, are the commands of these names; so are apply.go with applywait.go, delete.go and edit.go.
//
// All text from a daemon or a container runtime is untrusted: any user who may create pods writes it, and podctl runs on
// an administrator's terminal. So text reaches the terminal only through package render, description or note, which
// escape it. logs and exec are the exception: as with kubectl, they print a container's output byte for byte.
//
// Goroutines: `podctl pods`, `describe` and `version`, and each command that takes a pod's name, ask the two daemons
// in parallel and wait for both. `podctl replay` runs a server, and waits for its end. `podctl diff -` and `podctl
// exec -i` read standard input in a goroutine that may outlive the command; `podctl exec -t` watches the terminal's
// size until its end. `podctl images prune` reads the answer to its question in one, which may outlive it.
//
// Exit codes: 0 success (for watch: stopped by Ctrl-C), 1 an error or missing output, 2 wrong usage. `podctl diff`
// has those of kubectl diff: 0 nothing would change, 1 something would, 2 an error or a rejected manifest. `podctl
// exec` has the command's.
package podctl
