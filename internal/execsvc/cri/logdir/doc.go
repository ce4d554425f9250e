// Package logdir has the files of a container's log: the log itself, which the container runtime writes, and the logs
// that rotation has renamed or compressed.
//
//	0.log                            the current one
//	0.log.20260102-030405            renamed at that local time; the runtime may still write its last lines
//	0.log.20260102-030405-001        the next one within that second
//	0.log.20260102-030405.gz         compressed
//	0.log.20260102-030405.tmp        being compressed
//
// The names are the kubelet's, except for the number. Package logrotation renames, compresses and removes the files,
// containerlog reads them, and runtime removes them with their container, and those of earlier attempts.
//
// A pod with a writable hostPath can change the directory at any time. So a Log holds the directory's descriptor, which
// was opened beneath the directory of all logs without following a link, and uses only names in it. It opens regular
// files only, replaces no file, and reads at most maxEntries names. A name with a number above maxNumber isn't a log's. It
// runs no goroutines.
package logdir
