package objects

import (
	"fmt"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
)

// claim is an object that is used unless there are too many, and its origin.
type claim struct {
	offer
	origin string
}

// define decides which objects are used: the first of each name, up to the limits of the source.
func (s *source) define() {
	before := s.defined
	s.defined, s.unused = map[manifest.ObjectKey]*manifest.Object{}, nil
	from, size := map[manifest.ObjectKey]string{}, 0
	var claims []claim
	for _, o := range s.origins {
		for _, object := range o.offers {
			key := object.Key()
			if first, ok := from[key]; ok {
				s.unused = append(s.unused, shadowed(key, o.given.Name, object.Document, first))
				continue
			}
			s.defined[key], from[key] = object.Object, o.given.Name
			size += object.size
			claims = append(claims, claim{object, o.given.Name})
		}
	}
	if len(claims) > s.maxObjects || size > s.maxBytes {
		s.bound(claims, before)
	}
}

// bound removes the objects over the source's limits. Objects that were used before come first, so that a file with
// too many takes nothing from the others.
func (s *source) bound(claims []claim, before map[manifest.ObjectKey]*manifest.Object) {
	over := map[string]int{}
	count, size := 0, 0
	for _, established := range []bool{true, false} {
		for _, c := range claims {
			key := c.Key()
			if (before[key] != nil) != established {
				continue
			}
			if count == s.maxObjects || size+c.size > s.maxBytes {
				delete(s.defined, key)
				over[c.origin]++
				continue
			}
			count, size = count+1, size+c.size
		}
	}
	for _, o := range s.origins {
		if n := over[o.given.Name]; n > 0 {
			s.unused = append(s.unused, merge.Finding{Origin: o.given.Name, Finding: manifest.Finding{
				Severity: manifest.Error,
				Message: fmt.Sprintf("objects that aren't used: %d; the source has more than %d of them, or more than %d MiB",
					n, s.maxObjects, s.maxBytes>>20),
			}})
		}
	}
}

func shadowed(key manifest.ObjectKey, origin string, document int, first string) merge.Finding {
	f := manifest.Finding{
		Severity: manifest.Warning, Document: document,
		Message:  fmt.Sprintf("%s isn't used: %s has one too, and comes first", key, first),
		Unquoted: "isn't used: another one of that kind and name comes first",
	}
	if first == origin {
		f.Message = fmt.Sprintf("%s isn't used: an earlier document has one too", key)
	}
	return merge.Finding{Finding: f, Origin: origin}
}
