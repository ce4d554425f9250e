package oci

import (
	"fmt"
	"time"

	"github.com/podstream/podstream/internal/sources"
	"github.com/podstream/podstream/internal/sources/fault"
	"github.com/podstream/podstream/internal/sources/oci/pin"
)

var _ sources.Accepter = (*Source)(nil)

const errNoDir fault.Error = "there is no directory to store when the newest artifact was created"

const errNoTime fault.Error = "it doesn't say when it was created, in the annotation " + createdAnnotation + ", so it may be older than the accepted one"

// older is an artifact that was refused because of its age.
type older struct {
	digest             string
	created, newestOne time.Time
}

// Accept is part of sources.Accepter: it accepts the older artifact that was refused last. It is used when the reference
// is still the one of that artifact, and is the newest one from then on.
func (s *Source) Accept() (accepted string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.older.digest == "" {
		return "", nil
	}
	o := s.older
	s.accepted, s.older = o.digest, older{}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return fmt.Sprintf("artifact %s of %s, although the newest one was created at %s",
		o.digest, o.created.UTC().Format(time.RFC3339), o.newestOne.UTC().Format(time.RFC3339)), nil
}

// refuse records the artifact that is refused because of its age. The zero value: none is.
func (s *Source) refuse(o older) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.older = o
}

// isAccepted reports whether an artifact was accepted in spite of its age.
func (s *Source) isAccepted(digest string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted == digest
}

// newest returns the newest artifact that was accepted for the reference; nil: there is none.
func (p *poller) newest() (*pin.Newest, error) {
	if p.store == nil {
		return nil, errNoDir
	}
	n, err := p.store.Newest()
	if err != nil {
		return nil, fmt.Errorf("what the newest artifact was can't be read: %w; to accept the present one, remove the file", err)
	}
	if n == nil || n.Reference != p.ref.Name() {
		return nil, nil
	}
	return n, nil
}

// checkAge returns why an artifact is refused because of its age.
func (p *poller) checkAge(a *artifact) error {
	p.source.refuse(older{})
	if !p.cfg.Monotonic {
		return nil
	}
	created, ok := a.created()
	if !ok {
		return errNoTime
	}
	newest, err := p.newest()
	if err != nil {
		return err
	}
	if newest == nil || newest.Digest == a.digest || created.After(newest.Created) || p.source.isAccepted(a.digest) {
		return nil
	}
	p.source.refuse(older{a.digest, created, newest.Created})
	what := "older than"
	if created.Equal(newest.Created) {
		what = "created in the same second as"
	}
	return fault.Newf("it is %s the newest one that was accepted (%s, and %s); if that is right, run: podctl sources accept %s",
		what, created.UTC().Format(time.RFC3339), newest.Created.UTC().Format(time.RFC3339), p.cfg.Name)
}

// remember stores the age of an artifact that is about to be used, before it is.
func (p *poller) remember(a *artifact) error {
	created, ok := a.created()
	if !p.cfg.Monotonic || !ok {
		return nil
	}
	if err := p.store.SetNewest(pin.Newest{Reference: p.ref.Name(), Digest: a.digest, Created: created}); err != nil {
		return fmt.Errorf("the time of its creation can't be stored, so an older one might be accepted after a restart: %w", err)
	}
	p.source.mu.Lock()
	defer p.source.mu.Unlock()
	p.source.accepted, p.ageKnown = "", true
	return nil
}

// rememberCurrent stores the age of the accepted artifact, if it was accepted before that mattered. A stored artifact may be
// older than the newest one, for example if that couldn't be stored; then it is refused as any other.
func (p *poller) rememberCurrent() error {
	if !p.cfg.Monotonic || p.ageKnown {
		return nil
	}
	newest, err := p.newest()
	if err == nil && newest != nil && newest.Digest != p.current.digest {
		err = p.checkAge(p.current)
	}
	if err == nil && (newest == nil || newest.Digest != p.current.digest) {
		err = p.remember(p.current)
	}
	p.ageKnown = err == nil
	return err
}
