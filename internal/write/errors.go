package write

import (
	"errors"
	"fmt"
)

var (
	// ErrEmpty means that prune would leave the set without any document.
	ErrEmpty = errors.New("prune would remove every document of the set; allow that (podctl: --allow-empty) if it is meant")
	// ErrUnready is wrapped by errors of a source that can't take writes now.
	ErrUnready = errors.New("the source takes no writes now")
	// ErrFull is wrapped if the disk doesn't take the change. What was stored before is kept.
	ErrFull = errors.New("the disk doesn't take the change, and nothing has changed")
	// ErrUnconfirmed is wrapped if the disk failed when the change was to be stored: it may last, or not.
	ErrUnconfirmed = errors.New("the disk failed when the change was stored, and it isn't known whether it lasts: check the disk, " +
		"and make the same request again, which finds out")
	// ErrUnpublished means that the change is stored, and will be published.
	ErrUnpublished = errors.New("the change is stored, but not yet published: it will be, and the same request finds it unchanged then")
)

// MovedError means that a document isn't the version that the change was made against.
type MovedError struct {
	Key
	// Digest is that of the present version. Empty: there is none.
	Digest string
	// Unseen is set if prune would remove the document, and the change says nothing of it.
	Unseen bool
}

func (e *MovedError) Error() string {
	switch {
	case e.Unseen:
		return fmt.Sprintf("%s is in the set by now, and prune would remove it; nothing is changed", e.Key)
	case e.Digest == "":
		return fmt.Sprintf("%s was removed since, or never existed; nothing is changed", e.Key)
	case e.Kind == SecretKind:
		// The error is logged, and a digest could be compared with guesses.
		return fmt.Sprintf("%s is another version by now; nothing is changed", e.Key)
	}
	return fmt.Sprintf("%s is another version by now, with digest %s; nothing is changed", e.Key, e.Digest)
}

// ForeignError means that another caller has applied the document.
type ForeignError struct{ Key }

func (e *ForeignError) Error() string { return e.Key.String() + " was applied by another caller" }

// MissingError means that there is no such document.
type MissingError struct{ Key }

func (e *MissingError) Error() string { return "there is no applied " + e.Key.String() }

// SameUIDError means that two pods have one UID.
type SameUIDError struct {
	Key
	// Other is the other one. Zero: it is another caller's.
	Other Key
}

func (e *SameUIDError) Error() string {
	if e.Other == (Key{}) {
		return fmt.Sprintf("%s has the uid of a pod of another caller", e.Key)
	}
	return fmt.Sprintf("%s has the uid of %s", e.Key, e.Other)
}

// LimitError means that a limit is exceeded.
type LimitError struct {
	What string
	// Have is what the change leads to; zero: unknown.
	Have, Max int
}

func (e *LimitError) Error() string {
	if e.Have == 0 {
		return fmt.Sprintf("there are more than %d %s", e.Max, e.What)
	}
	return fmt.Sprintf("it leads to %d %s; the maximum is %d", e.Have, e.What, e.Max)
}

// UnmatchedError means that an expectation is about a document that the change doesn't concern.
type UnmatchedError struct{ Key }

func (e *UnmatchedError) Error() string {
	return "expected: the request doesn't change " + e.Key.String()
}
