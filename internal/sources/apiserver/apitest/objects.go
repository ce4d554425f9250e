package apitest

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Put creates or replaces objects, each with the next resourceVersion, and returns the last version. An object
// without a UID gets the one that its name has already, or else a new one. The objects are copied.
func (s *Server) Put(objects ...Object) string {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		resource := resourceOf(o)
		if resource == "" {
			s.t.Fatalf("apitest has no %T", o)
		}
		if was := s.objects[resource][key(o)]; was != nil && o.GetUID() != "" && was.GetUID() != o.GetUID() {
			s.publish(s.remove(resource, was))
		}
		s.publish(s.put(resource, o))
	}
	return s.current()
}

// Delete deletes the object of this type, namespace and name.
func (s *Server) Delete(o Object) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	resource := resourceOf(o)
	was := s.objects[resource][key(o)]
	if was == nil {
		s.t.Fatalf("delete %s %s: there is none", resource, key(o))
	}
	s.publish(s.remove(resource, was))
}

// Cluster returns the UID of Service default/kubernetes; empty if it doesn't exist.
func (s *Server) Cluster() types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if service := s.objects["services"][metav1.NamespaceDefault+"/kubernetes"]; service != nil {
		return service.GetUID()
	}
	return ""
}

// ReplaceStore makes the server one of another cluster, as if its etcd had been replaced by an empty one: it has no
// objects but a Service default/kubernetes with another UID, and its versions begin again. Open watches break.
func (s *Server) ReplaceStore() {
	s.mu.Lock()
	s.state = newState()
	s.seed()
	s.mu.Unlock()
	s.EndWatches()
}

// Snapshot returns the objects and the version, for Restore.
func (s *Server) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Snapshot{version: s.version, objects: copies(s.objects)}
}

// Restore makes the server go back to the snapshot, as if its etcd was restored from it and the server was restarted: it
// has the same cluster, and its versions go on from that of the snapshot. Open watches break.
func (s *Server) Restore(from Snapshot) {
	s.RestoreBehind(from)
	s.EndWatches()
}

// RestoreBehind is Restore, and open watches stay: they have the events after the version from which they began.
func (s *Server) RestoreBehind(from Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		w.since = max(w.since, s.version)
	}
	s.state = newState()
	s.version, s.oldest, s.objects = from.version, from.version, copies(from.objects)
}

// Version is the current resourceVersion.
func (s *Server) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current()
}

// Compact makes all versions before the current one too old to watch from, and all continue tokens expire.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compact()
}

// Bookmark sends a bookmark of the current version to each open watch that allows it.
func (s *Server) Bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		if w.bookmarks {
			w.push(s.bookmark(w.Resource, false))
		}
	}
}

// current returns the current version. The caller holds the lock, here and below.
func (s *Server) current() string { return strconv.FormatUint(s.version, 10) }

func (s *Server) publish(e event) {
	for w := range s.watches {
		if f, ok := w.selection.frame(e); ok && w.Resource == e.resource && e.version > w.since {
			if s.held != nil {
				s.held[w] = append(s.held[w], f)
			} else {
				w.push(f)
			}
		}
	}
	s.notify()
}
