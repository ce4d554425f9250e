// Package containerlog reads container logs, which the container runtime writes in the format of the CRI.
//
// Package runtime calls Read for the node's API and for termination messages. Only a Watch has a goroutine, while a log
// is followed with it.
//
// A pod with a writable hostPath can replace a log by any file. So a log is opened beneath the directory of all logs
// without following a link, only a regular file is read, and a line longer than 32 KiB is passed on in parts, so that
// memory is bounded. Holes are skipped, a reading ends at the size that the log had at its start, and a follow at what the
// files had at the container's end: other processes may make them longer and longer. No error quotes the file. Read doesn't wait for a FIFO or a lease, and ends with its context.
// A follow continues through rotations of the log: it reads each file to its end, also one that was compressed meanwhile,
// and then the next one. A reading that isn't a follow has the current file only, as in the kubelet. Package logdir has the
// names of rotated logs.
//
// k8s.io/cri-client has a reader too; that one follows links, blocks in open, and quotes the first line that it can't
// parse.
package containerlog
