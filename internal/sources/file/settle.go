package file

import "time"

// settleLimit is how long a file is waited for without a finding, from the first sign of a change that hasn't been
// read. A file that isn't complete by then is held.
const settleLimit = 5 * time.Second

// eventLag is how long an event may take to arrive. The kernel queues it at once, but goroutines have to run.
const eventLag = 5 * time.Millisecond

// writers is whether a file is open for writing.
type writers int

const (
	// writersUnknown: the kernel doesn't report it, as the file has another owner or its file system has no leases.
	writersUnknown writers = iota
	writersNone
	writersSome
)

// occasion is why a file is checked.
type occasion int

const (
	// firstListing: the path is listed for the first time, or again after it couldn't be read.
	firstListing occasion = iota
	// relisting: a later listing found the file new or changed.
	relisting
	// created: an event reports a new name. It was created, linked or renamed into place; inotify distinguishes
	// these, fsnotify doesn't.
	created
	// createdAfterRename: the same, and the event directly before removed a name. A rename within the directory
	// always looks like this.
	createdAfterRename
	// createdUnwritten: the same, and eventLag has passed without an event that the file was written.
	createdUnwritten
	// afterQuiet: the quiet period has passed since the last event.
	afterQuiet
)

// sighting is what is known of a file when it is checked.
type sighting struct {
	occasion occasion
	version  stamp
	writers  writers
	// metadataLast is set if the inode was changed after its content: by a rename, for instance.
	metadataLast bool
	// steady is set if the previous check, at least a quiet period ago, found the same version.
	steady bool
	// still is how long ago the file last changed in any way, and written how long ago its content did, by its own
	// times. Less than zero: the clocks differ.
	still, written time.Duration
	// waited is how long ago the first unread change was noticed.
	waited time.Duration
}

// complete reports whether to read the file now. If not, it is checked again after the quiet period. A file with a
// writer is never complete, however long the writer pauses: its first half may be valid YAML with fewer pods.
func (s *sighting) complete(quiet time.Duration) bool {
	if s.writers == writersSome {
		return false
	}
	switch s.occasion {
	case firstListing:
		// The file's past isn't known, and other files wait for this listing, so it is enough that the kernel reports
		// no writer. If the kernel doesn't report writers, a file that was just written may have one.
		return s.writers == writersNone || s.written < 0 || s.written >= quiet
	case relisting:
		return s.still >= quiet
	case created:
		// A file without a writer is complete if it came by a rename, which changes the inode last, or if it is an
		// old file under a new name. An empty one is going to be written.
		return s.version.size > 0 && s.writers == writersNone && (s.metadataLast || s.still >= quiet)
	case createdAfterRename, createdUnwritten:
		return s.version.size > 0 && s.writers == writersNone
	case afterQuiet:
		// Without inotify no event delays the reading. The file's own times do, or, if they can't be used, that it
		// has changed since the last check.
		return s.still >= quiet || s.still < 0 && s.steady
	}
	return false
}
