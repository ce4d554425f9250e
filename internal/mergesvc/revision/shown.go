package revision

import (
	"sync"
	"sync/atomic"

	"github.com/podstream/podstream/internal/redact"
)

// shown has the revisions of a pod's last changes that an inspector could see. They are computed when first needed,
// by comparing the version with the one that it replaces.
type shown struct {
	mu sync.Mutex
	// was is the version that this one replaces. Nil: there is none, or the revisions are known.
	was          *Pod
	known        bool
	spec, status uint64
	// failed is set if the versions couldn't be compared.
	failed bool
	// uncompared is how many bytes are left to compare.
	uncompared atomic.Int64
}

// Replace records that p is the version after was. Until Detach is called, p keeps was in memory.
func (p *Pod) Replace(was *Pod) {
	s := &p.shown
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known {
		return
	}
	s.was = was
	if !p.sameDigests(was) {
		s.uncompared.Store(int64(p.Size() + was.Size() + 1))
	}
}

// Uncompared returns how many bytes of pods Detach would have to compare. Zero: nothing is left to compare.
func (p *Pod) Uncompared() int { return int(p.shown.uncompared.Load()) }

// ShownChanged returns the revisions at which the spec and the status last changed as an inspector sees them:
// SpecChanged and StatusChanged without the changes of values that are redacted. Changes before the first call of
// Replace, those that Detach didn't compare, and those of a pod that can't be redacted count as seen.
func (p *Pod) ShownChanged() (spec, status uint64) {
	s := &p.shown
	s.mu.Lock()
	defer s.mu.Unlock()
	p.compare()
	return s.spec, s.status
}

// compare computes what an inspector sees, unless it is known. The caller holds shown.mu.
func (p *Pod) compare() {
	s := &p.shown
	if s.known {
		return
	}
	s.spec, s.status = p.SpecChanged, p.StatusChanged
	if s.was != nil {
		specWas, statusWas := s.was.ShownChanged()
		sameSpec, sameStatus, compared := p.sameForInspector(s.was)
		if sameSpec {
			s.spec = specWas
		}
		if sameStatus {
			s.status = statusWas
		}
		s.failed = !compared
	}
	s.release()
}

// release drops the replaced version, as the revisions are known. The caller holds mu.
func (s *shown) release() {
	s.known, s.was = true, nil
	s.uncompared.Store(0)
}

// Detach releases the version that p replaces. If compare is set, it first compares the two as an inspector sees
// them. It reports whether they were compared, now or before.
func (p *Pod) Detach(compare bool) (compared bool) {
	s := &p.shown
	if compare {
		s.mu.Lock()
		p.compare()
	} else if !s.mu.TryLock() {
		// ShownChanged is running, and releases the version.
		return false
	}
	defer s.mu.Unlock()
	if s.known {
		return !s.failed
	}
	s.spec, s.status, s.failed = p.SpecChanged, p.StatusChanged, true
	s.release()
	return false
}

// sameForInspector reports whether an inspector sees the same spec and the same status in two versions. A pod that
// can't be redacted equals no other; compared is then false.
func (p *Pod) sameForInspector(was *Pod) (spec, status, compared bool) {
	if p.sameDigests(was) {
		return true, true, true
	}
	// The caller may be the publisher, which one pod must not stop.
	defer func() {
		if recover() != nil {
			spec, status, compared = false, false, false
		}
	}()
	specNow, statusNow := p.Digests(redact.Audience{})
	specWas, statusWas := was.Digests(redact.Audience{})
	spec, status = specNow != "" && specNow == specWas, statusNow != "" && statusNow == statusWas
	return spec, status, specNow != "" && statusNow != "" && specWas != "" && statusWas != ""
}

// sameDigests reports whether two versions are equal to an Audience that sees all of them.
func (p *Pod) sameDigests(was *Pod) bool {
	return p.SpecDigest == was.SpecDigest && p.StatusDigest == was.StatusDigest
}
