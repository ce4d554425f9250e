package objects

import (
	"cmp"
	"strings"

	"github.com/podstream/podstream/internal/manifest"
)

// Ref names an object: the pods of a source refer to objects of that source only.
type Ref struct {
	Source string
	manifest.ObjectKey
}

// Compare orders references by source, kind, namespace and name.
func (r Ref) Compare(other Ref) int {
	return cmp.Or(cmp.Compare(r.Source, other.Source), r.ObjectKey.Compare(other.ObjectKey))
}

// State is what is known of an object.
type State int

const (
	// Unknown means that its source can't tell yet, or can't tell any more.
	Unknown State = iota
	// Missing means that it doesn't exist.
	Missing
	// Present means that it exists.
	Present
)

// String is the state in a word.
func (s State) String() string { return [...]string{"unknown", "missing", "present"}[s] }

// Value is what is known of an object, and the object itself if it is present.
type Value struct {
	State  State
	Object *Object
}

// Equal tells whether two values are the same to a consumer.
func (v Value) Equal(other Value) bool {
	return v.State == other.State && (v.State != Present || v.Object.Digest() == other.Object.Digest())
}

// asks tells whether a source has to be asked for its objects, which its sets don't have: by its kind, as that is known before it is
// first followed.
func asks(source string) bool {
	kind, _, _ := strings.Cut(source, ":")
	return kind == "api" || kind == "relay"
}
