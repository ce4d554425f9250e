package apitest

import "strconv"

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
		if f, ok := w.selection.frame(e); ok && w.Resource == e.resource {
			w.push(f)
		}
	}
	s.notify()
}
