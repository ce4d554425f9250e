package apiserver

import (
	"fmt"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources"
)

// WatchScope is what one watch of objects covers, on a Source of several nodes whose ChangeDetection is Watch.
type WatchScope string

// The scopes.
const (
	// WatchName has a watch for each object. An empty WatchScope means WatchName.
	WatchName WatchScope = "name"
	// WatchNamespace has a watch of the metadata of all objects of a kind in a namespace, if the role allows it and pods refer to
	// more than one of them.
	WatchNamespace WatchScope = "namespace"
)

// Check returns an error for a scope that doesn't exist.
func (w WatchScope) Check() error {
	switch w {
	case "", WatchName, WatchNamespace:
		return nil
	default:
		return fmt.Errorf("want %s or %s", WatchName, WatchNamespace)
	}
}

// minMembers is how many objects of a namespace pods must refer to before one watch is used for all of them: a watch of one
// object has none of the changes of others.
const minMembers = 2

// group is the objects of a kind in a namespace.
type group struct {
	kind      manifest.ObjectKind
	namespace string
}

func groupOf(key sources.ObjectKey) group { return group{key.Kind, key.Namespace} }

// grouped reports whether objects of a kind are watched by namespace, where the role allows it. A node's role never does.
func (s *Source) grouped(kind manifest.ObjectKind) bool {
	if _, watches := s.objects.(watching); !watches || len(s.nodes) == 1 {
		return false
	}
	return kind == manifest.ConfigMapKind || kind == manifest.SecretKind && s.cfg.WatchSecrets == WatchNamespace
}
