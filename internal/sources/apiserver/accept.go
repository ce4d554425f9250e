package apiserver

import (
	"fmt"

	"github.com/podstream/podstream/internal/sources"
)

var _ sources.Accepter = (*Source)(nil)

// Accept is part of sources.Accepter: it accepts the other cluster that was refused last. It is used once it answers again,
// within the interval of the checks. A cluster other than the configured one can't be accepted.
func (s *Source) Accept() (accepted string, err error) {
	i := s.server.identity
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.offered == "" || i.pinned != "" {
		return "", nil
	}
	i.intended = i.offered
	return fmt.Sprintf("the API server at %s is of the cluster %s from now on, and not of %s", i.address, i.offered, i.cluster), nil
}
