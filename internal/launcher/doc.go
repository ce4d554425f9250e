// Package launcher is the program kubelet: it takes a kubelet's command line, divides it between podconfigd and podexecd,
// and runs both as its children. cmd/kubelet calls it.
//
// Run checks the command line with both programs before it starts one. It starts a program that ends again, after a pause,
// and leaves the other one alone. It ends both when its context ends; the pods go on.
//
// Each child has a goroutine, locked to its thread: the kernel ends a child when the thread that started it ends, so no
// child outlives the launcher. Run waits for these goroutines. The package reads no configuration files, and never talks to
// the runtime or to the API server.
package launcher
