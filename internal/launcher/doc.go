// Package launcher is the kubelet's command line in front of podconfigd and podexecd: the program cmd/kubelet.
//
// Split decides which daemon gets which flags. It is a pure function of the arguments. Check reads the configuration files
// and reports the mistakes that either daemon would report, before any daemon starts. Launcher.Run starts both as children.
//
// Run has one goroutine for each daemon, which starts it, waits for its end, and starts it again after a pause. The goroutine
// has its thread alone until both end, because the kernel sends the death signal of a child when the thread that started it
// ends: a daemon doesn't outlive the launcher, however that ends. Two more goroutines of each child copy its output, line by
// line, to the launcher's standard error, one receives its messages, and one logs what that one does, as it must not wait for the
// log. All of them end before Run returns.
//
// podconfigd's user can make any files in the directory of the sockets. Run replaces those in podexecd's places, and starts
// podexecd whatever that user does there.
//
// Each daemon sends its readiness, its status and signs of progress to the launcher, as it sends them to systemd where it is a
// unit. The launcher kills a daemon without progress, and starts it again. To systemd it is ready when both daemons were, and
// has progress while no daemon hangs.
//
// The package never looks for a daemon in PATH, and changes no pod: pods go on when the launcher and the daemons stop.
package launcher
