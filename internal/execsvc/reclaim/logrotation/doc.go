// Package logrotation rotates the logs of running containers, so that a container's log has at most maxFiles files of
// about maxSize: the kubelet's container log manager (pkg/kubelet/logs/container_log_manager.go).
//
// A rotation renames the log and requests the runtime to open a new one. If the runtime doesn't, the log gets its name
// back, and the next attempt follows after a pause that doubles. All rotated logs but the newest are compressed, the
// newest of these first.
//
//	look (Run's goroutine)  ──▶ due ──▶ rotation worker  ──▶ uncompressed ──▶ compression worker
//	size, rate, next look               clean up, rename,                     one file at a time
//	                                    reopen
//
// The kubelet looks at each log once in an interval, and compresses before it renames. Here a log is looked at sooner,
// by how fast it grew until now: at least ten times in an interval, and about twice before it is full, with a least
// pause. A rotation waits for no compression: if a container fills logs faster than they are compressed, the oldest are
// removed uncompressed.
//
// Run owns all goroutines: itself, for each worker one that rotates and one that compresses, and one for each log that is
// being rotated. One lock protects the containers' states and the queues; it is not held during a system call or a call
// to the runtime.
//
// A container is in each queue once at most. A log whose rotation hangs holds a worker for patience, and for shortPatience
// when it is tried again: the attempt then continues beside the worker, up to ReopenTimeout. An outage of the runtime
// isn't counted as a failure of a log. All logs are tried again soon after it.
//
// A compression has a time limit, and one file of each container is compressed in turn. Files that no rotation makes,
// sparse or huge ones, are left as they are.
//
// A pod may control the directory of its logs. All files are found and changed by package logdir. The package never
// reads what a log says, never removes a container's current log, and changes no file whose name isn't that of a
// rotated log.
package logrotation
