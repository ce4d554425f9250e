package sources

import (
	"context"

	"github.com/podstream/podstream/internal/manifest"
)

// Source is one configured place that pods come from.
type Source interface {
	// Run reads the source until ctx ends, and then returns nil. It calls out with the full set at the first reading
	// and after each change, never concurrently, and with a set that has an Err while the source can't be read. A
	// returned error means that the source can never work as it is configured.
	Run(ctx context.Context, out func(manifest.Set)) error
}

// ObjectKey names a ConfigMap or Secret beside the pods of one source.
type ObjectKey = manifest.ObjectKey

// ObjectSource is a Source that has to request the objects that its pods refer to. The sets of other sources have
// their objects.
type ObjectSource interface {
	Source
	// RunObjects follows the wanted objects until ctx ends, and then returns nil. Each value of wanted is the full
	// set of keys, which replaces the previous one. It calls out with each wanted object when it is first known and
	// after each change, never concurrently; nil means that it doesn't exist. It isn't called for an object that
	// can't be read now.
	RunObjects(ctx context.Context, wanted <-chan []ObjectKey, out func(ObjectKey, *manifest.Object)) error
}

// Confirmer is a Source that can check how current its pods are.
type Confirmer interface {
	// Confirm requests a consistent reading that begins after the call, of the pods of the given nodes; nil: of all. It
	// returns at once, with a number. Once a set's Progress.Confirmed is that number or a later one, the pods of the nodes
	// are as in that reading, or later. Calls that come while a reading is due share it, and readings are paced. A reading
	// that fails is repeated. It is safe for concurrent use.
	Confirm(nodes []string) (number uint64)
}

// Accepter is a Source that refuses some changes until an administrator accepts them.
type Accepter interface {
	// Accept accepts what the source refuses now, and returns what that was, in a sentence; empty if it refuses nothing. It
	// is safe for concurrent use.
	Accept() (accepted string, err error)
}
