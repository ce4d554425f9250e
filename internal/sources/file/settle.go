package file

import "time"

// settleLimit is how long a file is waited for in silence, counted from the first sign of a change that hasn't been read. One
// that isn't complete by then is held.
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
	version  stamp
	writers  writers
	// metadataLast says that the inode was changed after its content was: by a rename, for instance.
	metadataLast bool
	// steady says that the look before, at least a quiet period ago, met the same version.
	steady bool
	// still is how long ago the file last changed in any way, and written when its content did, by its own times. Less than
	// zero: the clocks differ.
	still, written time.Duration
	// waited is how long ago the first change was noticed that hasn't been read yet.
	waited time.Duration
}

// complete says whether to read the file now. If not, it is looked at again after the quiet period. A file with a writer is
// never complete, however long that one pauses: its first half may be good YAML with fewer pods.
func (s *sighting) complete(quiet time.Duration) bool {
	if s.writers == writersSome {
		return false
	}
	switch s.occasion {
	case firstListing:
		// Nothing is known of the file's past, and others wait for this listing, so the kernel's word is enough. Where it has
		// none, a file that was just written may have a writer.
		return s.writers == writersNone || s.written < 0 || s.written >= quiet
	case relisting:
		return s.still >= quiet
	case created:
		// A file that nobody writes is complete if it came by a rename, which changes the inode last, or if it is an old
		// file under a new name. An empty one is going to be written.
		return s.version.size > 0 && s.writers == writersNone && (s.metadataLast || s.still >= quiet)
	case createdAfterRename, createdUnwritten:
		return s.version.size > 0 && s.writers == writersNone
	case afterQuiet:
		// Without inotify no event puts the reading off; the file's own times do, or its not having changed since the last
		// look where they are of no use.
		return s.still >= quiet || s.still < 0 && s.steady
	}
	return false
}
