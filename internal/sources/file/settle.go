package file

import "time"

// settleLimit bounds how long a file is waited for, counted from the first sign of a change that hasn't been read.
const settleLimit = 5 * time.Second

// eventLag is how long the events of what happened to a file may be on their way. The kernel queues them at once; it is
// goroutines that have to run.
const eventLag = 5 * time.Millisecond

// writers tells whether a file is open for writing.
type writers int

const (
	// writersUnknown: the kernel doesn't tell, as the file isn't ours or its file system has no leases.
	writersUnknown writers = iota
	writersNone
	writersSome
)

// occasion is why a file is looked at.
type occasion int

const (
	// firstListing: the path is listed for the first time, or again after it couldn't be read.
	firstListing occasion = iota
	// relisting: a later listing found the file new or changed.
	relisting
	// created: an event says that the name is new. It was created, linked or renamed into place; inotify knows, fsnotify
	// doesn't tell.
	created
	// createdAfterRename: the same, and the event directly before was that of a name going away. A rename within the
	// directory always looks so.
	createdAfterRename
	// createdUnwritten: the same, and eventLag has passed with no event that says that the file was written.
	createdUnwritten
	// afterQuiet: the quiet period has passed since the last event.
	afterQuiet
)

// sighting is what is known of a file when it is looked at.
type sighting struct {
	occasion occasion
	size     int64
	writers  writers
	// metadataLast says that the inode was changed after its content was: by a rename, for instance.
	metadataLast bool
	// still is how long ago the file last changed, by its own times. Less than zero: the clocks differ.
	still time.Duration
	// waited is how long ago the first change was noticed that hasn't been read yet.
	waited time.Duration
}

// complete says whether to read the file now. If not, it is looked at again after the quiet period.
func (s sighting) complete(quiet time.Duration) bool {
	switch s.occasion {
	case firstListing:
		// Nothing is known of the file's past, and others wait for this listing. A writer that hasn't written for so long
		// is no reason to wait.
		return s.writers != writersSome || s.still >= settleLimit
	case relisting:
		return s.still >= quiet && (s.writers != writersSome || s.still >= settleLimit)
	case created:
		// A file that nobody writes is complete if it came by a rename, which changes the inode last, or if it is an old
		// file under a new name. An empty one is going to be written.
		return s.size > 0 && s.writers == writersNone && (s.metadataLast || s.still >= quiet)
	case createdAfterRename, createdUnwritten:
		return s.size > 0 && s.writers == writersNone
	case afterQuiet:
		if s.waited >= settleLimit {
			return true
		}
		// Without inotify no event puts the reading off; the file's own times do.
		return s.writers != writersSome && (s.still < 0 || s.still >= quiet)
	}
	return false
}
