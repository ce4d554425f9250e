package objects

import (
	"cmp"
	"strings"

	"github.com/podstream/podstream/internal/manifest"
)

// Ref names an object. The pods of a source refer to objects of that source only.
type Ref struct {
	Source string
	manifest.ObjectKey
}

// Compare orders references by source, kind, namespace and name.
func (r Ref) Compare(other Ref) int {
	return cmp.Or(cmp.Compare(r.Source, other.Source), r.ObjectKey.Compare(other.ObjectKey))
}

// State is whether an object exists.
type State int

const (
	// Unknown means that its source wasn't read yet, or can't be read any more.
	Unknown State = iota
	// Missing means that it doesn't exist.
	Missing
	// Present means that it exists.
	Present
)

// String returns the state as a word.
func (s State) String() string { return [...]string{"unknown", "missing", "present"}[s] }

// Value is the state of an object, and the object itself if it is present.
type Value struct {
	State  State
	Object *Object
}

// Equal reports whether two values are the same to a consumer.
func (v Value) Equal(other Value) bool {
	return v.State == other.State && (v.State != Present || v.Object.Digest() == other.Object.Digest())
}

// apiKind is the kind of the source api.
const apiKind = "api"

// asks reports whether the objects of a source come through Follow and not in its sets. It goes by the kind, as that
// is known before the first Follow.
func asks(source string) bool {
	kind, _, _ := strings.Cut(source, ":")
	return kind == apiKind || kind == "relay"
}
