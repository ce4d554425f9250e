// Package podctl is the command line client of both daemons. It changes nothing on the node itself,
// except that edit has the user's editor change a manifest file.
//
// cmd/podctl calls Run. Each command has its own file, or several: pods.go with podswatch.go, images.go with imagespull.go,
// apply.go with applywait.go, cp.go with cptransfer.go, and so on. session.go has the streams of exec and attach, completion.go
// completes names in a shell, context.go chooses the endpoints, lists.go has the flags of lists, selector.go selects pods by
// labels, statusfollow.go follows pods for restart and wait, and webapply.go is what the page of podctl web applies and deletes
// with.
//
// Package podsummary joins and summarizes the two halves of a pod, kubeobject and containerrow make what kubectl and podman
// show of it, logmerge merges logs, contexts reads podctl.yaml, expression evaluates kubectl's expressions, and render prints
// tables and documents. Package archive reads a container's tar, which is hostile, and package forward carries connections.
// client/stream keeps a watcher's state and resumes its stream. Packages doctor and migration read the node for the commands
// of these names.
//
// All text from a daemon or a container runtime is untrusted: any user who may create pods writes it, and podctl runs on
// an administrator's terminal. So text reaches the terminal only through package render, description or note, which
// escape it. exec and attach are the exception, and logs to a file or a pipe: they print a container's output byte for byte.
// hostile_test.go sends a corpus of hostile strings through every view of every command.
//
// Goroutines: `podctl pods`, `get`, `describe` and `version`, and each command that takes a pod's name, ask the two daemons
// in parallel and wait for both. `podctl replay` runs a server, and waits for its end. `podctl diff -` and `podctl
// exec -i` and `attach -i` read standard input in a goroutine that may outlive the command; with -t they watch the
// terminal's size until their end. `podctl images prune` reads the answer to its question in one, which may outlive it.
// `podctl logs -f` reads each of several logs in a goroutine, and waits for them.
//
// Exit codes: 0 success (for watch: stopped by Ctrl-C), 1 an error or missing output, 2 wrong usage. `podctl diff`
// has those of kubectl diff: 0 nothing would change, 1 something would, 2 an error or a rejected manifest. `podctl
// exec` has the command's.
package podctl
