// Package file reads pods from manifests on disk: from a directory, or from a single file.
//
// It owns the path of one source: which of its files are manifests, when one of them is complete, and what was last
// read of it. It passes its full set to the function that it was given; it has no other output. podconfigd makes one
// Source for each --pod-manifest-path. A Source runs in the goroutine that calls Run, in one that uses the file
// system, and in one in which fsnotify reads inotify; all have ended when Run returns, unless a system call is stuck.
// It never writes to the path, never follows it into subdirectories, and never blocks on a file: a named pipe is
// refused, not opened.
//
// # What is read
//
// In a directory: the files that end in .yaml, .yml or .json, in the order of their paths. Hidden files and
// directories are skipped. Any other file gets a finding that it isn't read, up to maxIgnored of them. A path that is
// itself a file is read whatever its name.
//
// # When it is read
//
// A file is read when it is complete, as far as that can be determined; sighting.complete has the rules. A file that
// was renamed into place is read at once, or within eventLag if only that distinguishes it from one that is being
// created. A file that is written in place is read once it wasn't changed for the quiet period and no process has it
// open for writing. Its previous content stays until then. A file that isn't complete after settleLimit is held, with
// a finding that it is being written, and checked until it is complete: a file whose writer pauses may end anywhere,
// even at the end of a document. Where the kernel doesn't report writers, only the quiet period counts.
//
// A file that was removed is gone after the quiet period, unless there is a file of that path again by then: editors
// move a file away before they write the new one, and that is one change, not two. A file that is renamed within the
// directory is removed in the Set in which the new name is added. Changes that are noticed at the same time go out in
// one Set.
//
// A dangling link, found by a listing, is also given a quiet period: a mounted ConfigMap is switched to its new
// version before the links to files that aren't in it are removed.
//
// A path that can't be read as a whole is a Set with an Err. It never means "no pods". When it can be read again it
// is listed after a quiet period, as it may still be filling. These paths can't be read, either:
//
//   - a directory that had manifests, and has none now on another mount, as it was probably unmounted;
//   - a path that had manifests as a directory and is a file now, or the other way round;
//   - a path that is neither;
//   - a directory of more than maxNames names.
//
// This holds over a restart: the origins of the known pods show what the path was, and Config.PlaceFile on which
// mount, by its mount point and file system. An operator confirms one such change with the file confirmFile in the
// directory, or removes the manifests by an empty directory at the path.
//
// No reading waits for another process. Package openfile refuses what isn't a regular file of a file system that
// stores data, such as a link to /proc/kmsg, and doesn't wait for a lease. A file system whose server doesn't answer
// is a Set with an Err after stuckAfter, and doesn't keep Run from ending.
//
// inotify reports changes. Every CheckFrequency all files are compared with what was read of them, which finds what
// inotify doesn't report: changes on a network file system, changes of a symbolic link's target, a path that was
// switched to another directory. Without inotify, only the comparison finds changes, and it runs every pollInterval
// at least.
//
// # Leases
//
// To find out whether a process has a file open for writing, the package takes a read lease (fcntl(2), F_SETLEASE)
// and releases it at once. In the microseconds between, another process that opens the file for writing waits, or
// gets EWOULDBLOCK if it asked not to wait. The kernel may then send this process a SIGIO, which the Go runtime
// ignores unless the program requests it with signal.Notify.
package file
