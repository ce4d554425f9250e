package storage

import "github.com/podstream/podstream/internal/execsvc/setup/storage/record"

// kind is a kind of operation.
type kind string

// The kinds of operations. Their names are those of failpoints too.
const (
	markInUse    kind = "mark-in-use"
	waitAttached kind = "wait-attached"
	stage        kind = "stage"
	publish      kind = "publish"
	republish    kind = "republish"
	expand       kind = "expand"
	unpublish    kind = "unpublish"
	unstage      kind = "unstage"
	dropInUse    kind = "drop-in-use"
)

// operation is one step of a volume.
type operation struct {
	kind kind
	// target is the publication of publish, republish, unpublish and expand.
	target record.Target
}

// waits reports whether the operation only waits for the API server: it can be abandoned at any time.
func (o operation) waits() bool {
	return o.kind == markInUse || o.kind == waitAttached || o.kind == dropInUse
}

// concerns reports whether a failure of the operation keeps the target from being set up or torn down.
func (o operation) concerns(t record.Target) bool {
	if o.kind == republish || o.kind == expand {
		return false // The volume stays published.
	}
	return o.target == record.Target{} || o.target == t
}
