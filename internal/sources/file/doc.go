// Package file reads pods from manifests on disk: from a directory, or from a single file.
//
// It owns the path of one source: which files there are manifests, when one of them is complete, and what it last held. It
// hands its full set to the function that it was given, and nobody calls it back. podconfigd makes one Source for each
// --pod-manifest-path. A Source runs in the goroutine that calls Run, beside the one in which fsnotify reads inotify; both
// have ended when Run returns. It never writes to the path, never follows it into subdirectories, and never blocks on what
// it finds there: a named pipe is refused, not opened.
//
// # What is read
//
// Of a directory: the files that end in .yaml, .yml or .json, in the order of their paths. Hidden files and directories are
// passed over. Any other file is named, with a finding that it isn't read, up to maxIgnored of them. A path that is itself a
// file is read whatever its name.
//
// # When it is read
//
// A file is read when it is complete, as far as that can be known; sighting.complete has the rules. One that was renamed
// into place is read at once, or within eventLag if nothing else tells it from one that is being created. One that is
// written in place is read once it has been left alone for the quiet period and nobody has it open for writing. What it held
// before stays until then. A file that isn't complete after settleLimit is held, with a finding that it is being written,
// and looked at until it is: a writer that pauses leaves a file that ends anywhere, at the end of a document too. Where the
// kernel doesn't tell of writers, the quiet period is all there is to go by.
//
// A file that goes is gone after the quiet period, unless a file of that path is there again by then: editors move a file
// away before they write the new one, and that is one change, not two. A file that is renamed within the directory goes in
// the same Set in which the new name comes. What is noticed at the same time goes out in one Set.
//
// A link that leads nowhere, found by a listing, is given a quiet period too: a mounted ConfigMap is switched to its new version before
// the links to files that aren't in it go.
//
// A path that can't be read as a whole is a Set with an Err. It never means "no pods". When it comes back it is listed after
// a quiet period, as it may still be filling. A directory that had manifests, and has none now on another file system, is
// taken for one that was unmounted, and so for one that can't be read.
//
// inotify tells of changes. Every CheckFrequency all files are compared with what was read of them, which finds what inotify
// can't see: changes on a network file system, changes of what a symbolic link points to, a path that was switched to another
// directory. Where there is no inotify to be had, this is all there is, and it happens every pollInterval at least.
//
// # Leases
//
// Whether somebody has a file open for writing is asked of the kernel by taking a read lease (fcntl(2), F_SETLEASE) and
// giving it back at once. In the microseconds between, another process that opens the file for writing waits, or gets
// EWOULDBLOCK if it asked not to wait. The kernel may then send this process a SIGIO, which the Go runtime ignores unless
// the program asks for it with signal.Notify.
package file
