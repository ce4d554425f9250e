package apitest

import "fmt"

// SetMinor makes the server show that it is of version 1.MINOR of Kubernetes. New servers are of 1.37. Connections stay.
func (s *Server) SetMinor(minor int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.minor = minor
}

// release is the answer to /version.
func (s *Server) release() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Appendf(nil, `{"major":"1","minor":"%d","gitVersion":"v1.%d.0"}`, s.minor, s.minor)
}
